package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/identity"
)

func scopedCaller(soft bool) caller {
	k := tenant.Contract{SoftDay: soft, Overrun: must(money.ParsePercent("10"))}
	for _, s := range []tenant.Scope{
		{Scope: window.Scope{Kind: window.Agent, ID: "*"}, Ceilings: tenant.Ceilings{Day: 100}},
		{Scope: window.Scope{Kind: window.CostCenter, ID: "unassigned"}, Ceilings: tenant.Ceilings{Minute: 7}},
		{Scope: window.Scope{Kind: window.APIKey, ID: "k1"}, Ceilings: tenant.Ceilings{Month: 9}},
	} {
		k = k.WithScope(s)
	}
	return caller{contract: &k, principal: identity.Principal{Method: identity.MethodAPIKey, KeyID: "k1"}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // a literal of this file
	}
	return v
}

// A call keeps the key and the kinds; names and ceilings follow, the day soft where the tenant's is. A JWT's subject is no key.
func TestCountIn(t *testing.T) {
	none := admit.NoCeiling()
	for _, soft := range []bool{false, true} {
		c := call{Agent: "planner"}
		limits := c.countIn(scopedCaller(soft))
		day := admit.Hard(100)
		if soft {
			day.Cap = 110
		}
		want := []admit.ScopeLimit{{Kind: window.Agent, ID: "planner", Star: true, Minute: none, Day: day, Month: none},
			{Kind: window.APIKey, ID: "k1", Minute: none, Day: none, Month: admit.Hard(9)},
			{Kind: window.CostCenter, ID: "unassigned", Minute: admit.Hard(7), Day: none, Month: none}}
		if c.Scopes != "akc" || c.APIKey != "k1" || fmt.Sprint(limits) != fmt.Sprint(want) {
			t.Errorf("%q %q %+v, want %+v", c.Scopes, c.APIKey, limits, want)
		}
		back, err := decodeCall(c.encode())
		if err != nil || back.Scopes != c.Scopes || back.APIKey != "k1" {
			t.Errorf("%+v, %v", back, err)
		}
	}
	jwt := scopedCaller(false)
	jwt.principal.Method = identity.MethodJWT
	c := call{CostCenter: "ops"}
	if limits := c.countIn(jwt); limits != nil || c.APIKey != "" || c.countedIn() != nil {
		t.Errorf("%+v %+v", c, limits)
	}
}

// Where the store chose the name that others share, the call notes it, and so do its events, its ceilings and what a recovery
// keeps; a hold that says nothing new changes nothing.
func TestHeldInTheSharedScope(t *testing.T) {
	who := scopedCaller(false)
	c := call{Agent: "planner"}
	c.countIn(who)
	same := []window.Scope{{Kind: window.Agent, ID: "planner"}, {Kind: window.APIKey, ID: "k1"}, {Kind: window.CostCenter, ID: "unassigned"}}
	if _, changed := c.heldIn(same); changed {
		t.Error("nothing changed")
	}
	if _, changed := c.heldIn(nil); changed {
		t.Error("a hold from before there were sub-scopes")
	}
	shared := same
	shared[0].ID = window.OtherScope
	held, changed := c.heldIn(shared)
	if !changed || fmt.Sprint(held.countedIn()) != "map[agent:~ api_key:k1 cost_center:unassigned]" || fmt.Sprint(held.scopesHeld()) != fmt.Sprint(shared) {
		t.Errorf("%v %v", held.countedIn(), held.scopesHeld())
	}
	if limits := held.ceilings(who.contract); limits[0].ID != window.OtherScope || limits[0].Day != admit.Hard(100) || len(limits) != 3 {
		t.Errorf("%+v", limits)
	}
	if _, again := held.heldIn(shared); again {
		t.Error("noted twice")
	}
	without := who.contract
	without.Scopes = nil
	if limits := held.ceilings(without); limits != nil {
		t.Errorf("a contract without scopes: %+v", limits)
	}
}

// A line has the windows that have a ceiling; one of the last 30 days frees when the day leaves that the store names, and
// has nothing to free where nothing is used; rung 4 is where it
// refuses, which for a soft day is its overrun.
func TestScopeLine(t *testing.T) {
	calendar := admit.CalendarAt(time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC), time.UTC)
	k := scopedCaller(true).contract
	use := budgetstore.WindowUse{Own: 105, Held: 5}
	scope := tenant.Counted{Scope: tenant.Scope{Scope: window.Scope{Kind: window.Agent, ID: "a"}, Ceilings: tenant.Ceilings{Day: 100, Month: 105}}}
	for _, c := range []struct {
		kind   tenant.MonthKind
		leaves int32
		resets string
	}{{tenant.MonthCalendar, 0, "2026-12-01T00:00:00Z"}, {tenant.MonthRolling30, 20261020, "2026-11-20T00:00:00Z"}, {tenant.MonthRolling30, 0, ""}} {
		kind, resets := c.kind, c.resets
		k.Month = kind
		line := scopeLineOf(k, scope, budgetstore.Budget{Day: use, Month: use, Leaves: c.leaves}, calendar, time.UTC)
		day, month := line.Windows["day"], line.Windows["month"]
		if len(line.Windows) != 2 || day.Rung != 0 || !day.Soft || day.RemainingUSD.String() != "-0.000000005" || day.HeldUSD.String() != "0.000000005" ||
			month.Rung != 4 || month.ResetsAt != resets || day.ResetsAt != "2026-11-04T00:00:00Z" {
			t.Errorf("%s: %+v", kind, line)
		}
	}
}
