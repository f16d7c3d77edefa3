package admission

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// budgetRequest names values whose sub-scopes the caller wants to see beside those that its contract names.
type budgetRequest struct {
	AgentID    string
	CostCenter string
}

func (req budgetRequest) check() *Problem {
	return first(checkOptionalID("agent_id", req.AgentID), checkOptionalID("cost_center", req.CostCenter))
}

// scopesAtOnce is how many sub-scopes of one answer are read at a time; their calls share round trips.
const scopesAtOnce = 16

// shown are the sub-scopes of an answer: each that the contract names, and those of the caller's key and of the values
// that it asks for.
func shown(c caller, req budgetRequest) []tenant.Counted {
	list := c.contract.ScopesOf(tenant.Values{CostCenter: req.CostCenter, Agent: req.AgentID, APIKey: c.keyID()})
	list = slices.DeleteFunc(list, func(s tenant.Counted) bool { return !s.Each })
	for _, s := range c.contract.Scopes {
		if s.ID != tenant.EachScope && s.Limited() {
			list = append(list, tenant.Counted{Scope: s})
		}
	}
	slices.SortFunc(list, func(a, b tenant.Counted) int { return a.Compare(b.Scope.Scope) })
	return list
}

// scopeLines reads the counters of the sub-scopes that are shown.
func (s *Service) scopeLines(ctx context.Context, t budgetstore.Tenant, c caller, req budgetRequest, calendar admit.Calendar, loc *time.Location) ([]scopeLine, error) {
	list := shown(c, req)
	lines := make([]scopeLine, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(scopesAtOnce)
	for i, scope := range list {
		g.Go(func() error {
			l := limitsOf(c.contract)
			l.Month = scopeLimit(c.contract, scope).Month
			b, err := s.counters.ScopeBudget(ctx, t, scope.Scope.Scope, calendar, l)
			lines[i] = scopeLineOf(c.contract, scope, b, calendar, loc)
			return err
		})
	}
	return lines, g.Wait()
}

// scopeLineOf has the windows that the sub-scope has a ceiling for.
func scopeLineOf(k *tenant.Contract, scope tenant.Counted, b budgetstore.Budget, calendar admit.Calendar, loc *time.Location) scopeLine {
	out := scopeLine{Kind: scope.Kind, ID: scope.ID, Windows: map[string]windowLine{}}
	limit := scopeLimit(k, scope)
	for name, w := range map[admit.Limit]struct {
		ceiling money.Nano
		use     budgetstore.WindowUse
		limit   admit.Ceiling
	}{
		admit.LimitMinute: {scope.Ceilings.Minute, b.Minute, limit.Minute}, admit.LimitDay: {scope.Ceilings.Day, b.Day, limit.Day},
		admit.LimitMonth: {scope.Ceilings.Month, b.Month, limit.Month},
	} {
		if w.ceiling == 0 {
			continue
		}
		line := windowOf(w.ceiling, w.use, w.limit.Rung(w.use.Used()))
		switch name {
		case admit.LimitMinute:
			line.HeldUSD = nil
		case admit.LimitDay:
			line.Soft, line.ResetsAt = k.SoftDay, clock(calendar.Windows.DayEnds)
		case admit.LimitMonth:
			line.ResetsAt = monthResets(k, b, calendar, loc)
		}
		out.Windows[string(name)] = line
	}
	return out
}
