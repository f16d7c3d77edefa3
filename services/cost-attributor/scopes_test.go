package costattributor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// scoped is a world whose tenants get scopes an hour before now, in the given time zone.
func scoped(t *testing.T, zone string) *world {
	w := newWorld(t, true)
	h := tenant.History{ID: "acme"}
	first := contract(t)
	first.Timezone = zone
	second := first
	second.EffectiveFrom = now.Add(-time.Hour)
	for _, s := range []window.Scope{{Kind: window.CostCenter, ID: "research"}, {Kind: window.CostCenter, ID: lineageUnassigned}, {Kind: window.Agent, ID: "*"}, {Kind: window.APIKey, ID: "k1"}} {
		second = second.WithScope(tenant.Scope{Scope: s, Ceilings: tenant.Ceilings{Day: 1e9}})
	}
	second = second.WithScope(tenant.Scope{Scope: window.Scope{Kind: window.Agent, ID: "exempt"}})
	for _, c := range []tenant.Contract{first, second} {
		next, err := h.With(c)
		if err != nil {
			t.Fatal(err)
		}
		h = next
	}
	w.a.catalogs.contract = func(_ string, at time.Time) (tenant.Contract, bool) { return h.At(at) }
	return w
}

const lineageUnassigned = "unassigned"

func scopesText(e ledger.Entry) string {
	var all []string
	for _, s := range e.Scopes {
		all = append(all, string(s.Kind)+"="+s.ID)
	}
	return strings.Join(all, " ")
}

// What nobody reserved counts in the sub-scopes of the contract in force when it happened; the key is believed only where
// admission signed.
func TestStampsExternal(t *testing.T) {
	w := scoped(t, "UTC")
	token := must[string](t)(w.key.SignExecutionToken(identity.Execution{Tenant: "acme", Root: "root", Agent: "lead", CostCenter: "research", ExpiresAt: now.Add(time.Hour)}, now))
	deep := must[string](t)(w.key.SignExecutionToken(identity.Execution{Tenant: "acme", Root: "root", Agent: "lead", Depth: 2, ExpiresAt: now.Add(time.Hour),
		Branches: []admit.Branch{{ID: "b_1", MaxCost: 2}, {ID: "b_2", MaxCost: 1}}}, now))
	n := 0
	for name, c := range map[string]struct {
		change func(*usageevent.Event)
		sign   bool
		want   string
		key    string
	}{
		"names nothing":               {func(e *usageevent.Event) { e.Data.AgentID = "" }, false, "cost_center=unassigned", ""},
		"agent of its own":            {func(e *usageevent.Event) { e.Data.CostCenter = "research" }, false, "agent=a cost_center=research", ""},
		"exempt agent":                {func(e *usageevent.Event) { e.Data.AgentID = "exempt" }, false, "cost_center=unassigned", ""},
		"no entry":                    {func(e *usageevent.Event) { e.Data.CostCenter = "ops" }, false, "agent=a", ""},
		"no plain id":                 {func(e *usageevent.Event) { e.Data.AgentID = "a b" }, false, "cost_center=unassigned", ""},
		"before the contract":         {func(e *usageevent.Event) { e.Time = now.Add(-2 * time.Hour) }, false, "", ""},
		"key, not signed":             {func(e *usageevent.Event) { e.Data.APIKeyID = "k1" }, false, "agent=a cost_center=unassigned", ""},
		"key, sent by admission":      {func(e *usageevent.Event) { e.Data.APIKeyID = "k1" }, true, "agent=a api_key=k1 cost_center=unassigned", "k1"},
		"the token wins":              {func(e *usageevent.Event) { e.Data.ExecutionToken = token }, false, "agent=lead cost_center=research", ""},
		"the token's branches":        {func(e *usageevent.Event) { e.Data.ExecutionToken = deep }, false, "agent=lead cost_center=unassigned execution_branch=b_1 execution_branch=b_2", ""},
		"branches, sent by admission": {func(e *usageevent.Event) { e.Data.ExecutionToken = deep }, true, "agent=lead cost_center=unassigned execution_branch=b_1 execution_branch=b_2", ""},
		"branches of its own, forged": {func(e *usageevent.Event) {
			e.Data.Reservation = &usageevent.Reservation{ReservedAt: now, Outcome: usageevent.OutcomeSettled, Branches: []string{"b_9"}}
		}, false, "agent=a cost_center=unassigned", ""},
		"scopes of its own, forged": {func(e *usageevent.Event) {
			e.Data.Reservation = &usageevent.Reservation{ReservedAt: now, Outcome: usageevent.OutcomeSettled, Scopes: map[string]string{"agent": "victim"}}
		}, false, "agent=a cost_center=unassigned", ""},
	} {
		n++
		ev := call(fmt.Sprint("e", n))
		c.change(&ev)
		value := usageevent.Encode(ev)
		var headers []string
		if c.sign {
			headers = []string{identity.SignatureHeader, identity.Sign(secret(t), value)}
		}
		entries, reason := w.send(w.record(value, "acme", headers...))
		if reason != "" || scopesText(entries[0]) != c.want || entries[0].APIKeyID != c.key {
			t.Errorf("%s: %q %q %v", name, reason, c.key, entries)
		}
	}
}

// An own entry counts where its hold counted, whatever its trace says and whatever the contract says by now; a reversal
// where the entry counted that it reverses, and again after a restart.
func TestStampsOfReservations(t *testing.T) {
	held := []window.Scope{{Kind: window.Agent, ID: "planner"}, {Kind: window.APIKey, ID: "k1"}, {Kind: window.Branch, ID: "b_1"}, {Kind: window.Branch, ID: "b_2"}}
	for _, outcome := range []string{usageevent.OutcomeSettled, usageevent.OutcomeEstimated, usageevent.OutcomeUnsettled, usageevent.OutcomeLate} {
		w := scoped(t, "UTC")
		entries, reason := w.send(w.signed(outcome, func(e *usageevent.Event) {
			e.Data.APIKeyID, e.Data.Reservation.Scopes = "k1", map[string]string{"api_key": "k1", "agent": "planner"}
			e.Data.Reservation.Branches = []string{"b_2", "b_1"}
			e.Data.Traceparent, e.Data.Tracestate = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "cost_center=research"
		}))
		if reason != "" || !slices.Equal(entries[0].Scopes, held) || entries[0].APIKeyID != "k1" {
			t.Errorf("%s: %q %+v", outcome, reason, entries)
		}
		if outcome != usageevent.OutcomeUnsettled {
			continue
		}
		w.restart()
		actual := call("e1")
		actual.Data.ReservationID, actual.Data.AgentID, actual.Data.CostCenter = "r1", "other", "research"
		entries, reason = w.send(w.record(usageevent.Encode(actual), "acme"))
		if reason != "" || len(entries) != 2 || !slices.Equal(entries[0].Scopes, held) || scopesText(entries[1]) != "agent=other cost_center=research" {
			t.Errorf("reversal: %q %+v", reason, entries)
		}
	}
}

// Field reports 100, 101, 103 and 104: every kind of sub-scope turns its windows where its tenant's calendar does, also in
// zones ahead of and behind UTC and on days of 23 and 25 hours; the days of a month are the month.
func TestFieldReports100To104(t *testing.T) {
	for _, c := range []struct {
		zone, at   string
		day, month int32
	}{
		{"UTC", "2026-04-30T23:59:59.999Z", 20260430, 202604}, {"UTC", "2026-05-01T00:00:00Z", 20260501, 202605}, // 103
		{"Asia/Kolkata", "2026-04-30T18:29:59.999Z", 20260430, 202604}, {"Asia/Kolkata", "2026-04-30T18:30:00Z", 20260501, 202605}, // 101: +05:30
		{"America/Sao_Paulo", "2026-05-01T02:59:59.999Z", 20260430, 202604}, {"America/Sao_Paulo", "2026-05-01T03:00:00Z", 20260501, 202605}, // 101: -03:00
		{"Europe/Budapest", "2026-03-29T21:59:59.999Z", 20260329, 202603}, {"Europe/Budapest", "2026-03-29T22:00:00Z", 20260330, 202603}, // 104: 23 hours
		{"Europe/Budapest", "2026-10-25T22:59:59.999Z", 20261025, 202610}, {"Europe/Budapest", "2026-10-25T23:00:00Z", 20261026, 202610}, // 104: 25 hours
		{"Europe/Budapest", "2026-10-31T22:59:59.999Z", 20261031, 202610}, {"Europe/Budapest", "2026-10-31T23:00:00Z", 20261101, 202611}, // the month after it
	} {
		w := newWorld(t, true)
		k := contract(t)
		k.Timezone = c.zone
		for _, kind := range window.ScopeKinds() {
			k = k.WithScope(tenant.Scope{Scope: window.Scope{Kind: kind, ID: "*"}, Ceilings: tenant.Ceilings{Day: 1e9}})
		}
		w.a.catalogs.contract = func(string, time.Time) (tenant.Contract, bool) { return k, true }
		ev := call("e1")
		ev.Time = must[time.Time](t)(time.Parse(time.RFC3339Nano, c.at))
		ev.Data.CostCenter, ev.Data.APIKeyID = "west", "k1"
		ev.Data.Usage = json.RawMessage(`{"prompt_tokens":1,"completion_tokens":1}`)
		value := usageevent.Encode(ev)
		entries, reason := w.send(w.record(value, "acme", identity.SignatureHeader, identity.Sign(secret(t), value)))
		if reason != "" || scopesText(entries[0]) != "agent=a api_key=k1 cost_center=west" || entries[0].Windows.Day != c.day || entries[0].Windows.Month != c.month {
			t.Errorf("%s %s: %q %+v", c.zone, c.at, reason, entries)
		}
	}
}
