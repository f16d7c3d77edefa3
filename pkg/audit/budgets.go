package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
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

func (x execution) String() string {
	name := "execution"
	if x.branch {
		name = "branch"
	}
	return fmt.Sprintf("tenant %s %s %s", x.tenant, name, x.id)
}

// readAtOnce is how many reads of Redis are under way at a time: what the store is asked at the same time shares a round trip.
const readAtOnce = 256

// eachRead reads what Redis has of each item, many at a time, and hands it on in the order of the items.
func eachRead[T, C any](ctx context.Context, items []T, read func(context.Context, T) (C, error), check func(T, C)) error {
	for chunk := range slices.Chunk(items, readAtOnce) {
		found := make([]C, len(chunk))
		g, ctx := errgroup.WithContext(ctx)
		for i, item := range chunk {
			g.Go(func() (err error) {
				found[i], err = read(ctx, item)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, item := range chunk {
			check(item, found[i])
		}
	}
	return nil
}

// checkBudgets compares Redis: at a quiet moment, own without open holds is the journal's own, and external is the
// journal's external (ADR 0001). Windows that Redis no longer labels are past and need no counter.
func checkBudgets(ctx context.Context, s Sources, j *journal, book catalogs, want map[WindowKey]*total, r *Report) error {
	err := eachRead(ctx, slices.Sorted(maps.Keys(book.tenants)), func(ctx context.Context, tenant string) (Counters, error) {
		c, err := s.Budgets.Tenant(ctx, tenant, book.tenants[tenant].at(s.Now))
		if err != nil {
			return c, fmt.Errorf("read the counters of %s: %w", tenant, err)
		}
		return c, nil
	}, func(tenant string, c Counters) { checkTenant(tenant, c, j.own[tenant], want, r) })
	if err != nil {
		return err
	}
	if err := checkScopeBudgets(ctx, s, book.tenants, want, r); err != nil {
		return err
	}
	return eachRead(ctx, j.executions(), func(ctx context.Context, x execution) (ExecutionCounters, error) {
		read := s.Budgets.Execution
		if x.branch {
			read = s.Budgets.Branch
		}
		c, err := read(ctx, x.tenant, x.id)
		if err != nil {
			return c, fmt.Errorf("read %s: %w", x, err)
		}
		return c, nil
	}, func(x execution, c ExecutionCounters) { checkExecution(x, c, s.Now, want, r) })
}

func checkTenant(tenant string, c Counters, hasOwn bool, want map[WindowKey]*total, r *Report) {
	if !c.Known {
		if hasOwn {
			r.differ("redis", "tenant "+tenant, "counters: the journal has own entries", "none")
		}
		return // never reserved anything: no counter was ever made
	}
	r.Tenants++
	sameCounters("tenant "+tenant, WindowKey{Tenant: tenant, Scope: "TENANT"}, int64(c.DayLabel), int64(c.MonthLabel), c, want, r)
}

// sameCounters holds a day and a month in Redis against the journal's; of says whose they are.
func sameCounters(what string, of WindowKey, day, month int64, c Counters, want map[WindowKey]*total, r *Report) {
	for _, w := range []struct {
		kind                       string
		label, own, held, external int64
	}{{"DAY", day, c.DayOwn, c.DayHeld, c.DayExternal}, {"MONTH", month, c.MonthOwn, c.MonthHeld, c.MonthExternal}} {
		of.Kind, of.Window = w.kind, w.label
		t := orNothing(want[of])
		window := fmt.Sprintf("%s %s %d ", what, w.kind, w.label)
		sameCounter(r, window+"own nano-dollars without holds", t.own, w.own-w.held, w.held)
		sameCounter(r, window+"external nano-dollars", t.external, w.external, 0)
	}
}

func checkExecution(x execution, c ExecutionCounters, now time.Time, want map[WindowKey]*total, r *Report) {
	what, scope := x.String(), "EXECUTION"
	if x.branch {
		scope = branchColumn
	}
	kept := !x.lastOwn.IsZero() && now.Sub(x.lastOwn) < executionKept
	if !c.Exists {
		if kept {
			r.differ("redis", what, "counters: the journal has own entries", "none")
		}
		return // past its maximum age, or nobody told Redis of it
	}
	r.Executions++
	t := orNothing(want[WindowKey{x.tenant, scope, x.id, "EXECUTION", 0}])
	if c.Known || kept {
		sameCounter(r, what+" own nano-dollars without holds", t.own, c.Own-c.Held, c.Held)
	}
	sameCounter(r, what+" external nano-dollars", t.external, c.External, 0)
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
