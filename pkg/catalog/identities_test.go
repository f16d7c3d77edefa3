package catalog

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// An identity belongs to the one tenant whose contract in force lists it; to none if two do, or if that one is gone.
func TestOfIdentity(t *testing.T) {
	tenants := NewTenants(func(_, key string, err error) { t.Error(key, err) })
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	zero, err := money.ParsePercent("0")
	if err != nil {
		t.Fatal(err)
	}
	contract := func(from int, removed bool, identities ...string) tenant.Contract {
		return tenant.Contract{EffectiveFrom: day(from), PublishedAt: day(from), Removed: removed, Limits: tenant.Limits{Concurrency: 1},
			Ceilings: tenant.Ceilings{Minute: 1, Day: 1, Month: 1}, Count: tenant.CountRaw, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(),
			Overrun: zero, Markup: zero, Identities: identities}
	}
	apply := func(id string, versions ...tenant.Contract) {
		t.Helper()
		value, err := EncodeTenant(tenant.History{ID: id, Versions: versions})
		if err != nil {
			t.Fatal(err)
		}
		if len(versions) == 0 {
			value = nil
		}
		if err := tenants.Apply(bus.Record{Topic: topics.CatalogTenants, Key: []byte(id), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(identity string, on int, id string) {
		t.Helper()
		if got, ok := tenants.OfIdentity(identity, day(on)); got != id || ok != (id != "") {
			t.Errorf("%s on the %d: %q %v, want %q", identity, on, got, ok, id)
		}
	}
	apply("acme", contract(1, false, "slack:T1", "slack:T1"), contract(10, false, "slack:T2"))
	apply("beta", contract(1, false, "slack:T3"), contract(10, false, "slack:T1"))
	want("slack:T1", 5, "acme")
	want("slack:T1", 15, "beta")
	want("slack:T2", 5, "")
	want("slack:T2", 15, "acme")
	want("slack:t2", 15, "")
	want("slack:", 15, "")
	apply("gamma", contract(1, false, "slack:T2"))
	want("slack:T2", 15, "")
	want("slack:T2", 5, "gamma")
	apply("gamma", contract(1, false, "slack:T2"), contract(20, true, "slack:T2"))
	want("slack:T2", 25, "acme")
	apply("acme")
	want("slack:T2", 25, "")
	want("slack:T2", 15, "gamma")
	apply("gamma", contract(1, false))
	want("slack:T2", 15, "")
	if len(tenants.lists) != 2 {
		t.Errorf("left behind: %v", tenants.lists)
	}
}
