package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// scopeID names a sub-scope of one tenant: kind as in contracts.
type scopeID struct{ kind, id string }

// checkScopeBudgets compares the counters of a tenant's sub-scopes: of those that the journal has in this month, and of
// those that the contract names. Where names were too many, which of them shared the one is not told by the journal, so
// nothing is said about those that the contract does not name.
func checkScopeBudgets(ctx context.Context, s Sources, tenant string, book contracts, want map[WindowKey]*total, r *Report) error {
	version := book.version(s.Now)
	shared := map[string]bool{}
	for _, x := range scopesToCheck(tenant, version, s.Now, want) {
		c, err := s.Budgets.Scope(ctx, tenant, x.kind, x.id, version.zone)
		if err != nil {
			return fmt.Errorf("read %s %s of %s: %w", x.kind, x.id, tenant, err)
		}
		_, named := version.counts(x.kind, x.id)
		switch {
		case x.id == otherName:
			shared[x.kind] = shared[x.kind] || c.Known || hasScope(tenant, x, want)
			continue
		case !named && shared[x.kind]:
			continue
		}
		checkScope(tenant, x, version.zone, c, s.Now, want, r)
	}
	return nil
}

func checkScope(tenant string, x scopeID, zone *time.Location, c Counters, now time.Time, want map[WindowKey]*total, r *Report) {
	day, month := labels(now, zone)
	what := fmt.Sprintf("tenant %s %s %s", tenant, x.kind, x.id)
	column := columnOf(x.kind)
	if !c.Known {
		if t := orNothing(want[WindowKey{tenant, column, x.id, "MONTH", month}]); t.own != 0 || t.external != 0 {
			r.differ("redis", what, "counters: the journal has entries of this month", "none")
		}
		return
	}
	r.Scopes++
	for _, w := range []struct {
		kind                       string
		label, own, held, external int64
	}{{"DAY", day, c.DayOwn, c.DayHeld, c.DayExternal}, {"MONTH", month, c.MonthOwn, c.MonthHeld, c.MonthExternal}} {
		t := orNothing(want[WindowKey{tenant, column, x.id, w.kind, w.label}])
		window := fmt.Sprintf("%s %s %d ", what, w.kind, w.label)
		same(r, "redis", window+"own nano-dollars without holds", t.own, w.own-w.held)
		same(r, "redis", window+"external nano-dollars", t.external, w.external)
	}
}

// labels are the day YYYYMMDD and the month YYYYMM of a time.
func labels(at time.Time, zone *time.Location) (day, month int64) {
	local := at.In(zone)
	month = int64(local.Year()*100 + int(local.Month()))
	return month*100 + int64(local.Day()), month
}

// scopesToCheck begins each kind with the name that others may share.
func scopesToCheck(tenant string, version contract, now time.Time, want map[WindowKey]*total) []scopeID {
	_, month := labels(now, version.zone)
	all := map[scopeID]bool{}
	for key := range want {
		if kind := kindOfColumn(key.Scope); key.Tenant == tenant && kind != "" && key.Kind == "MONTH" && key.Window == month {
			all[scopeID{kind, key.ScopeID}] = true
		}
	}
	for _, s := range version.scopes {
		if all[scopeID{s.kind, otherName}] = true; s.id != eachScope && s.limited {
			all[scopeID{s.kind, s.id}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b scopeID) int {
		if (a.id == otherName) != (b.id == otherName) {
			if a.id == otherName {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
}

func hasScope(tenant string, x scopeID, want map[WindowKey]*total) bool {
	for key := range want {
		if key.Tenant == tenant && key.Scope == columnOf(x.kind) && key.ScopeID == x.id {
			return true
		}
	}
	return false
}

// columnOf is a kind of sub-scopes as the window table has it. kindOfColumn is its inverse, "" for what is no sub-scope.
func columnOf(kind string) string { return strings.ToUpper(kind) }

func kindOfColumn(column string) string {
	switch column {
	case "COST_CENTER", "AGENT", "API_KEY":
		return strings.ToLower(column)
	}
	return ""
}
