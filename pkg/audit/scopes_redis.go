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

// scopeID names a sub-scope of a tenant: kind as in contracts.
type scopeID struct{ tenant, kind, id string }

func (x scopeID) String() string { return fmt.Sprintf("tenant %s %s %s", x.tenant, x.kind, x.id) }

// checkScopeBudgets compares the counters of the tenants' sub-scopes: of those that the journal has in this month, and of
// those that the contract names. Where names were too many, which of them shared the one is not told by the journal, so
// nothing is said about those that the contract does not name.
func checkScopeBudgets(ctx context.Context, s Sources, tenants map[string]contracts, want map[WindowKey]*total, r *Report) error {
	now := map[string]contract{}
	for tenant, versions := range tenants {
		now[tenant] = versions.version(s.Now)
	}
	list, shared := scopesToCheck(now, s.Now, want)
	return eachRead(ctx, list, func(ctx context.Context, x scopeID) (Counters, error) {
		c, err := s.Budgets.Scope(ctx, x.tenant, x.kind, x.id, now[x.tenant].zone)
		if err != nil {
			return c, fmt.Errorf("read %s: %w", x, err)
		}
		return c, nil
	}, func(x scopeID, c Counters) {
		kind := scopeID{x.tenant, x.kind, otherName}
		if x == kind {
			shared[kind] = shared[kind] || c.Known
			return
		}
		if _, named := now[x.tenant].counts(x.kind, x.id); named || !shared[kind] {
			checkScope(x, now[x.tenant].zone, c, s.Now, want, r)
		}
	})
}

func checkScope(x scopeID, zone *time.Location, c Counters, now time.Time, want map[WindowKey]*total, r *Report) {
	day, month := labels(now, zone)
	what, column := x.String(), columnOf(x.kind)
	if !c.Known {
		if t := orNothing(want[WindowKey{x.tenant, column, x.id, "MONTH", month}]); t.own != 0 || t.external != 0 {
			r.differ("redis", what, "counters: the journal has entries of this month", "none")
		}
		return
	}
	r.Scopes++
	sameCounters(what, WindowKey{Tenant: x.tenant, Scope: column, ScopeID: x.id}, day, month, c, want, r)
}

// scopesToCheck begins each kind of a tenant with the name that others may share, and tells where the journal has that.
func scopesToCheck(tenants map[string]contract, now time.Time, want map[WindowKey]*total) (list []scopeID, shared map[scopeID]bool) {
	all, shared := map[scopeID]bool{}, map[scopeID]bool{}
	months := map[string]int64{}
	for tenant, version := range tenants {
		_, months[tenant] = labels(now, version.zone)
		for _, s := range version.scopes {
			if all[scopeID{tenant, s.kind, otherName}] = true; s.id != eachScope && s.limited {
				all[scopeID{tenant, s.kind, s.id}] = true
			}
		}
	}
	for key := range want {
		x := scopeID{key.Tenant, kindOfColumn(key.Scope), key.ScopeID}
		if x.kind == "" {
			continue
		}
		if key.Kind == "MONTH" && key.Window == months[key.Tenant] {
			all[x] = true
		}
		if x.id == otherName {
			shared[x] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b scopeID) int {
		if (a.id == otherName) != (b.id == otherName) {
			if a.id == otherName {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	}), shared
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
