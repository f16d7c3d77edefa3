//go:build integration

package budgetstore

import (
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Goal: sub-scopes come back with the tenant: own by windows, usage that never asked, and what pending holds hold; whatever
// is done again counts once, and a hold grows and ends in them like any other.
func TestBaseOfScopes(t *testing.T) {
	w := newWorld(t)
	agent, centre := window.Scope{Kind: window.Agent, ID: "a"}, window.Scope{Kind: window.CostCenter, ID: "c"}
	none := admit.NoCeiling()
	lost := w.request(5 * dollar)
	for _, s := range []window.Scope{agent, centre} {
		lost.Scopes = append(lost.Scopes, ScopeLimit{Kind: s.Kind, ID: s.ID, Minute: none, Day: admit.Hard(100 * dollar), Month: none})
	}
	ref := w.admit(lost)
	pending := w.receipt(lost, ref)
	pending.Scopes = []window.Scope{agent, centre}
	w.clear()
	_, err := w.store.Pend(t.Context(), pending)
	w.must(err)
	minute := w.clock.now().Unix() / 60 * 60
	base := Base{Offset: 9, Own: []OwnTotal{{DayScope, 20260630, 10 * dollar, 0, 0, 0}},
		Scopes: []ScopeBase{{Scope: agent, Own: []OwnTotal{{MonthScope, 202606, 40 * dollar, 0, 0, 0}, {DayScope, 20260630, 10 * dollar, 0, 0, 0},
			{DayScope, 20260629, 3 * dollar, 0, 0, 0}, {MinuteScope, minute, 2 * dollar, 1, 10, 20}}}},
		External: []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 8, Nanos: dollar, SubScope: ScopeRef{Scope: agent, Star: true}},
			{Scope: MonthScope, Window: 202606, Version: 7, Nanos: 2 * dollar, SubScope: ScopeRef{Scope: centre}}}}
	for n := range 3 { // again, and again from the start
		if n == 2 {
			_, err = w.store.ClearOthers(t.Context(), w.maker(), alive)
			w.must(err)
		}
		w.load(w.maker(), base)
	}
	pending.Held.Nanos = 6 * dollar // the stream goes on while the journal is applied
	_, err = w.store.Pend(t.Context(), pending)
	w.must(err)
	w.next()
	of := func(s window.Scope) Budget {
		b, err := w.store.ScopeBudget(t.Context(), w.tenant, s, lost.Calendar, admit.Limits{})
		w.must(err)
		return b
	}
	a, c := of(agent), of(centre)
	if a.Day != (WindowUse{20260630, 16 * dollar, 6 * dollar, dollar}) || a.Month != (WindowUse{202606, 46 * dollar, 6 * dollar, 0}) || a.Minute.Own != 8*dollar || a.Requests != 2 {
		t.Errorf("agent %+v", a)
	}
	if c.Day != (WindowUse{20260630, 6 * dollar, 6 * dollar, 0}) || c.Month != (WindowUse{202606, 6 * dollar, 6 * dollar, 2 * dollar}) {
		t.Errorf("cost centre %+v", c)
	}
	ref.Tenant = w.tenant
	ending, err := w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 2 * dollar})
	w.must(err)
	if a, c = of(agent), of(centre); !ending.Applied || a.Day.Own != 12*dollar || a.Day.Held != 0 || c.Month.Own != 2*dollar {
		t.Errorf("settled: %+v %+v %+v", ending, a, c)
	}
	next := w.request(88 * dollar)
	next.Tenant, next.Scopes = w.tenant, lost.Scopes
	if got := w.reserve(next); got.Verdict != Refused || got.Refusal.ScopeID != "a" || got.Refusal.Limit != admit.LimitDay {
		t.Errorf("beyond the agent's day: %+v", got)
	}
	_, err = w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 8, Nanos: 9 * dollar, SubScope: ScopeRef{Scope: agent}}})
	w.must(err)
	if got := of(agent).Day.External; got != dollar {
		t.Errorf("a version that the base had was taken: %d", got)
	}
}
