package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// checkBudgets compares Redis: at a quiet moment, own without open holds is the journal's own, and external is the
// journal's external (design.md 4.4). Windows that Redis no longer labels are past and need no counter.
func checkBudgets(ctx context.Context, b Budgets, now time.Time, j *journal, calendars map[string]calendar, want map[WindowKey]*total, r *Report) error {
	roots, own := map[[2]string]bool{}, map[string]bool{}
	for _, e := range j.entries {
		own[e.GetTenantId()] = own[e.GetTenantId()] || e.GetOwnNanos() != 0
		if root := e.GetLineage().GetRootExecutionId(); root != "" {
			roots[[2]string{e.GetTenantId(), root}] = true
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(calendars)) {
		c, err := b.Tenant(ctx, tenant, calendars[tenant].at(now))
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", tenant, err)
		}
		if !c.Known {
			if own[tenant] {
				r.differ("redis", "tenant "+tenant, "counters: the journal has own entries", "none")
			}
			continue // never reserved anything: no counter was ever made
		}
		r.Tenants++
		of := func(kind string, label int32) *total {
			if t := want[WindowKey{tenant, "TENANT", "", kind, int64(label)}]; t != nil {
				return t
			}
			return &total{}
		}
		day, month := of("DAY", c.DayLabel), of("MONTH", c.MonthLabel)
		what := "tenant " + tenant + " "
		same(r, "redis", fmt.Sprintf("%sday %d own nano-dollars without holds", what, c.DayLabel), day.own, c.DayOwn-c.DayHeld)
		same(r, "redis", fmt.Sprintf("%sday %d external nano-dollars", what, c.DayLabel), day.external, c.DayExternal)
		same(r, "redis", fmt.Sprintf("%smonth %d own nano-dollars without holds", what, c.MonthLabel), month.own, c.MonthOwn-c.MonthHeld)
		same(r, "redis", fmt.Sprintf("%smonth %d external nano-dollars", what, c.MonthLabel), month.external, c.MonthExternal)
	}
	for key := range roots {
		c, err := b.Execution(ctx, key[0], key[1])
		if err != nil {
			return fmt.Errorf("read execution %s of %s: %w", key[1], key[0], err)
		}
		if !c.Known {
			continue // past its maximum age, or it never came through admission
		}
		r.Executions++
		t := want[WindowKey{key[0], "EXECUTION", key[1], "EXECUTION", 0}]
		what := fmt.Sprintf("tenant %s execution %s ", key[0], key[1])
		same(r, "redis", what+"own nano-dollars without holds", t.own, c.Own-c.Held)
		same(r, "redis", what+"external nano-dollars", t.external, c.External)
	}
	return nil
}
