package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// executionKept is for how long after its latest own entry an execution's counters must be in Redis: they are kept for
// longer than a root's maximum age, or than a branch's tokens, counted from its start or from a recovery, and nothing is
// booked as own after that. Later they may be gone, or be there again with what came since, which says nothing about what was before.
const executionKept = 30 * time.Minute

// execution is what the journal says of one root execution, or of a branch of one, apart from its total.
type execution struct {
	tenant, id string
	branch     bool
	lastOwn    time.Time // zero = no own entry
}

// checkBudgets compares Redis: at a quiet moment, own without open holds is the journal's own, and external is the
// journal's external (design.md 4.4). Windows that Redis no longer labels are past and need no counter.
func checkBudgets(ctx context.Context, s Sources, j *journal, book catalogs, want map[WindowKey]*total, r *Report) error {
	for _, tenant := range slices.Sorted(maps.Keys(book.tenants)) {
		if err := checkTenant(ctx, s, tenant, book.tenants[tenant].at(s.Now), j.own[tenant], want, r); err != nil {
			return err
		}
		if err := checkScopeBudgets(ctx, s, tenant, book.tenants[tenant], want, r); err != nil {
			return err
		}
	}
	for _, x := range j.executions() {
		if err := checkExecution(ctx, s, x, want, r); err != nil {
			return err
		}
	}
	return nil
}

func checkTenant(ctx context.Context, s Sources, tenant string, zone *time.Location, hasOwn bool, want map[WindowKey]*total, r *Report) error {
	c, err := s.Budgets.Tenant(ctx, tenant, zone)
	if err != nil {
		return fmt.Errorf("read the counters of %s: %w", tenant, err)
	}
	if !c.Known {
		if hasOwn {
			r.differ("redis", "tenant "+tenant, "counters: the journal has own entries", "none")
		}
		return nil // never reserved anything: no counter was ever made
	}
	r.Tenants++
	for _, w := range []struct {
		kind                string
		label               int32
		own, held, external int64
	}{
		{"DAY", c.DayLabel, c.DayOwn, c.DayHeld, c.DayExternal},
		{"MONTH", c.MonthLabel, c.MonthOwn, c.MonthHeld, c.MonthExternal},
	} {
		t := orNothing(want[WindowKey{tenant, "TENANT", "", w.kind, int64(w.label)}])
		what := fmt.Sprintf("tenant %s %s %d ", tenant, w.kind, w.label)
		same(r, "redis", what+"own nano-dollars without holds", t.own, w.own-w.held)
		same(r, "redis", what+"external nano-dollars", t.external, w.external)
	}
	return nil
}

func checkExecution(ctx context.Context, s Sources, x execution, want map[WindowKey]*total, r *Report) error {
	read, name, scope := s.Budgets.Execution, "execution", "EXECUTION"
	if x.branch {
		read, name, scope = s.Budgets.Branch, "branch", branchColumn
	}
	what := fmt.Sprintf("tenant %s %s %s", x.tenant, name, x.id)
	c, err := read(ctx, x.tenant, x.id)
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	kept := !x.lastOwn.IsZero() && s.Now.Sub(x.lastOwn) < executionKept
	if !c.Exists {
		if kept {
			r.differ("redis", what, "counters: the journal has own entries", "none")
		}
		return nil // past its maximum age, or nobody told Redis of it
	}
	r.Executions++
	t := orNothing(want[WindowKey{x.tenant, scope, x.id, "EXECUTION", 0}])
	if c.Known || kept {
		same(r, "redis", what+" own nano-dollars without holds", t.own, c.Own-c.Held)
	}
	same(r, "redis", what+" external nano-dollars", t.external, c.External)
	return nil
}

// orNothing is an empty total where the journal has no entry.
func orNothing(t *total) *total {
	if t == nil {
		return &total{}
	}
	return t
}

// executions lists the root executions and branches of the journal in order.
func (j *journal) executions() []execution {
	return slices.SortedFunc(maps.Values(j.roots), func(a, b execution) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.id, b.id))
	})
}
