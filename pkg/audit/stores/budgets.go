package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
)

// Budgets is Redis as the auditor sees it.
type Budgets struct {
	Store *budgetstore.Store
	// Epoch is the one that Postgres says Redis is in.
	Epoch int64
	Now   func() time.Time
}

// Tenant implements audit.Budgets.
func (b Budgets) Tenant(ctx context.Context, tenant string, zone *time.Location) (audit.Counters, error) {
	u, err := b.Store.Budget(ctx, budgetstore.Tenant{ID: tenant, Epoch: b.Epoch}, admit.CalendarAt(b.Now(), zone), admit.Limits{})
	if errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch) { // of another epoch: not this instance's
		return audit.Counters{}, nil
	}
	if err != nil {
		return audit.Counters{}, fmt.Errorf("budget of %s: %w", tenant, err)
	}
	return counters(u), nil
}

// Scope implements audit.Budgets.
func (b Budgets) Scope(ctx context.Context, tenant, kind, id string, zone *time.Location) (audit.Counters, error) {
	var scope budgetstore.ScopeRef // its type of kinds is pkg/domain/window's, which an auditor does not import
	scope.ID = id
	switch kind {
	case "cost_center":
		scope.Kind = "cost_center"
	case "agent":
		scope.Kind = "agent"
	case "api_key":
		scope.Kind = "api_key"
	}
	u, err := b.Store.ScopeBudget(ctx, budgetstore.Tenant{ID: tenant, Epoch: b.Epoch}, scope.Scope, admit.CalendarAt(b.Now(), zone), admit.Limits{})
	if err != nil || u.At.IsZero() {
		return audit.Counters{}, err
	}
	return counters(u), nil
}

func counters(u budgetstore.Budget) audit.Counters {
	return audit.Counters{
		Known: true, DayLabel: u.Day.Label, MonthLabel: u.Month.Label,
		DayOwn: int64(u.Day.Own), DayHeld: int64(u.Day.Held), DayExternal: int64(u.Day.External),
		MonthOwn: int64(u.Month.Own), MonthHeld: int64(u.Month.Held), MonthExternal: int64(u.Month.External),
	}
}

// Execution implements audit.Budgets.
func (b Budgets) Execution(ctx context.Context, tenant, root string) (audit.ExecutionCounters, error) {
	return b.execution(ctx, b.Store.Execution, "execution", tenant, root)
}

// Branch implements audit.Budgets.
func (b Budgets) Branch(ctx context.Context, tenant, id string) (audit.ExecutionCounters, error) {
	return b.execution(ctx, b.Store.Branch, "branch", tenant, id)
}

func (b Budgets) execution(ctx context.Context, read func(context.Context, budgetstore.Tenant, string) (budgetstore.ExecutionState, error),
	what, tenant, id string) (audit.ExecutionCounters, error) {
	x, err := read(ctx, budgetstore.Tenant{ID: tenant, Epoch: b.Epoch}, id)
	if errors.Is(err, budgetstore.ErrNoExecution) || errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch) {
		return audit.ExecutionCounters{}, nil
	}
	if err != nil {
		return audit.ExecutionCounters{}, fmt.Errorf("%s %s of %s: %w", what, id, tenant, err)
	}
	return audit.ExecutionCounters{Exists: true, Known: x.Known, Own: int64(x.Own), Held: int64(x.Held), External: int64(x.External)}, nil
}
