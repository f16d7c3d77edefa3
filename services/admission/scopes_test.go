//go:build integration

package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// withScopes is a contract with entries "kind name minute day month", in cents; 0 is no ceiling.
func withScopes(t *testing.T, k tenant.Contract, entries ...string) tenant.Contract {
	t.Helper()
	for _, entry := range entries {
		var kind, id string
		var minute, day, month money.Nano
		if _, err := fmt.Sscan(entry, &kind, &id, &minute, &day, &month); err != nil {
			t.Fatal(err)
		}
		cent := dollar / 100
		k = k.WithScope(tenant.Scope{Scope: window.Scope{Kind: window.ScopeKind(kind), ID: id},
			Ceilings: tenant.Ceilings{Minute: minute * cent, Day: day * cent, Month: month * cent}})
	}
	return k
}

func centre(id string) object { return object{"cost_center": id} }
func agent(id string) object  { return object{"agent_id": id} }

// scopeOf is a window's figure of a sub-scope in the budget, "" where the sub-scope is not shown.
func scopeOf(b object, kind, id, name, figure string) string {
	list, _ := b["scopes"].([]any)
	for _, one := range list {
		if s := one.(object); s["kind"] == kind && s["id"] == id {
			return figureOf(s, name, figure)
		}
	}
	return ""
}

func scopeText(out object) string {
	s, _ := out["scope"].(object)
	return fmt.Sprint(s["kind"], " ", s["id"])
}

// Goal: a cost centre's dollar a minute refuses its calls and nobody else's; the refusal names it, and changes no counter.
func TestScopeRefuses(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "cost_center research 100 0 0", "cost_center unassigned 0 50 0")))
	r := w.start()
	status, out := r.reserve("acme", "r1", 80, centre("research"))
	w.want("fits", status, out, 201)
	for range 3 {
		status, out = r.reserve("acme", "r2", 30, centre("research"))
		w.want("does not", status, out, 429, "code", "tenant_quota_exceeded", "window", "minute", "used", "0.8", "asked", "0.3", "ceiling", "1", "rung", "0")
	}
	if scopeText(out) != "cost_center research" || out["retry_after_ms"] != nil || !strings.Contains(fmt.Sprint(out["message"], out["detail"]), "cost centre research") ||
		!strings.HasPrefix(fmt.Sprint(out["detail"]), "cost_center research, minute: 0.8 USD") {
		t.Errorf("%v", out)
	}
	resets, err := time.Parse(time.RFC3339, fmt.Sprint(out["resets_at"]))
	if wait := time.Until(resets); err != nil || wait < 30*time.Second || wait > 62*time.Second {
		t.Errorf("resets at %v: %v", out["resets_at"], err)
	}
	status, out = r.reserve("acme", "r3", 30, centre("ops"))
	w.want("another cost centre", status, out, 201)
	status, out = r.reserve("acme", "r4", 51)
	w.want("a call that names none", status, out, 422, "code", "estimate_exceeds_limit")
	if scopeText(out) != "cost_center unassigned" {
		t.Errorf("%v", out)
	}
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.want("settle", status, out, 200)
	status, out = r.reserve("acme", "r5", 80, centre("research"))
	w.want("room again", status, out, 201)
	b := r.budget("acme")
	if got := scopeOf(b, "cost_center", "research", "minute", "own_usd"); got != "1" || figureOf(b, "day", "own_usd") != "1.3" {
		t.Errorf("research %s of %v", got, b)
	}
	if scopeOf(b, "cost_center", "unassigned", "day", "used_usd") != "0" || scopeOf(b, "cost_center", "ops", "day", "used_usd") != "" {
		t.Errorf("%v", b["scopes"])
	}
}

// Goal: "*" gives each agent its own day, a name of its own another one or none; the token's agent counts, whatever the
// body claims; what an ended hold gave back is there again.
func TestEachScope(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "agent * 0 100 0", "agent rich 0 500 0", "agent exempt 0 0 0")))
	r := w.start()
	for _, c := range []struct {
		id, agent string
		cents     int
		status    int
	}{
		{"a1", "a", 100, 201}, {"a2", "a", 1, 429}, {"b1", "b", 100, 201}, {"c1", "rich", 400, 201}, {"c2", "rich", 101, 429},
		{"d1", "exempt", 600, 201}, {"e1", "", 600, 201},
	} {
		status, out := r.reserve("acme", c.id, c.cents, agent(c.agent))
		w.want(c.id, status, out, c.status)
		if status == 429 && scopeText(out) != "agent "+c.agent {
			t.Errorf("%s: %v", c.id, out)
		}
	}
	status, started, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"agent_id": "a"})
	w.want("execution", status, started, 201)
	status, out := r.reserve("acme", "x1", 1, agent("b2"), object{"execution_token": started["token"]})
	w.want("the token's agent", status, out, 429)
	status, out, _ = r.do("POST", "/v1/reservations/a1/release", w.keys["acme"], nil)
	w.want("release", status, out, 200)
	status, out = r.reserve("acme", "x2", 1, object{"execution_token": started["token"]})
	w.want("after the release", status, out, 201)
	status, b, _ := r.do("GET", "/v1/budget?agent_id=b", w.keys["acme"], nil)
	w.want("budget", status, b, 200)
	if scopeOf(b, "agent", "b", "day", "remaining_usd") != "0" || scopeOf(b, "agent", "b", "day", "rung") != "4" || scopeOf(b, "agent", "rich", "day", "held_usd") != "4" ||
		scopeOf(b, "agent", "a", "day", "used_usd") != "" {
		t.Errorf("%v", b["scopes"])
	}
	status, b, _ = r.do("GET", "/v1/budget?agent_id=a%20b", w.keys["acme"], nil)
	w.want("odd agent", status, b, 400, "field", "agent_id")
}

// Goal: an API key's month is that key's, which the budget shows to it; event, receipt and row keep the key that reserved,
// whichever settles; a soft day refuses at its overrun.
func TestScopeOfAKey(t *testing.T) {
	w := newWorld(t, one(contract()))
	second := w.publishKey("acme")
	id, _, err := identity.SplitAPIKey(second)
	w.must(err)
	k := withScopes(t, contract(), "api_key "+id+" 0 100 200")
	k.SoftDay = true
	w.publishTenant("acme", k) // and a key that no entry names
	r := w.start()
	ask := func(key, reservation string, cents int) (int, object) {
		status, out, _ := r.do("POST", "/v1/reservations", key, object{"reservation_id": reservation, "provider": "openai", "model": "flat",
			"estimate": object{"input_tokens": 0, "max_output_tokens": cents}})
		return status, out
	}
	status, made := ask(second, "r1", 110)
	w.want("the soft day's overrun", status, made, 201)
	status, out := ask(second, "r2", 1)
	w.want("above it", status, out, 429, "window", "day", "ceiling", "1.1")
	ends := window.DayBounds(window.KeysAt(time.Now(), w.zone).Day, w.zone).End
	if fmt.Sprint(out["resets_at"]) != ends.UTC().Format(time.RFC3339) || scopeText(out) != "api_key "+id {
		t.Errorf("%v", out)
	}
	status, out = ask(w.keys["acme"], "r3", 300)
	w.want("another key", status, out, 201)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 50}, "receipt": made["receipt"]})
	w.want("settled by the other key", status, out, 200)
	ev, err := usageevent.Decode(w.outboxRows()[0].payload, nil)
	w.must(err)
	if ev.Data.APIKeyID != id || fmt.Sprint(ev.Data.Reservation.Scopes) != "map[api_key:"+id+"]" {
		t.Errorf("%+v %+v", ev.Data, ev.Data.Reservation)
	}
	_, b, _ := r.do("GET", "/v1/budget", second, nil)
	if scopeOf(b, "api_key", id, "month", "used_usd") != "0.5" || scopeOf(b, "api_key", id, "day", "soft") != "true" || scopeOf(b, "api_key", id, "minute", "used_usd") != "<nil>" {
		t.Errorf("%v", b["scopes"])
	}
}

// Goal: usage that never asked counts in a sub-scope from the aggregator's totals, newest version only, and refuses its
// next reservation; the tenant's own total is another.
func TestExternalUsageOfAScope(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "agent * 0 100 0", "cost_center research 0 0 100")))
	r := w.start()
	keys := window.KeysAt(time.Now(), w.zone)
	total := func(kind weirv1.ScopeKind, id string, of weirv1.WindowKind, label, version, cents int64) {
		value, err := proto.Marshal(&weirv1.WindowTotal{TenantId: "acme", ScopeKind: kind, ScopeId: id, Kind: of, Window: label, Version: version,
			ExternalNanos: cents * int64(dollar) / 100})
		w.must(err)
		w.publish(bus.NewRecord(topics.BudgetWindows, "acme", []byte(fmt.Sprint(kind, id, of, label)), value))
	}
	day, month := weirv1.WindowKind_WINDOW_KIND_DAY, weirv1.WindowKind_WINDOW_KIND_MONTH
	status, out := r.reserve("acme", "r0", 10, agent("busy"))
	w.want("first", status, out, 201)
	total(weirv1.ScopeKind_SCOPE_KIND_AGENT, "busy", day, int64(keys.Day), 7, 90)
	total(weirv1.ScopeKind_SCOPE_KIND_AGENT, "busy", day, int64(keys.Day), 6, 10) // older
	total(weirv1.ScopeKind_SCOPE_KIND_COST_CENTER, "research", month, int64(keys.Month), 8, 100)
	w.eventually("research is used up", func() error {
		if got := scopeOf(r.budget("acme"), "cost_center", "research", "month", "external_usd"); got != "1" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	status, out = r.reserve("acme", "r1", 1, agent("busy"))
	w.want("own and external", status, out, 429, "window", "day", "used", "1")
	status, out = r.reserve("acme", "r2", 1, agent("idle"), centre("research"))
	w.want("month", status, out, 429, "window", "month")
	if ends := fmt.Sprint(out["resets_at"]); ends != window.MonthBounds(keys.Month, w.zone).End.UTC().Format(time.RFC3339) {
		t.Errorf("resets at %s", ends)
	}
	status, out = r.reserve("acme", "r3", 100, agent("idle"))
	w.want("another agent", status, out, 201)
	if b := r.budget("acme"); figureOf(b, "day", "external_usd") != "0" {
		t.Errorf("the tenant's own: %v", b)
	}
}

// Goal: what no script applied reaches the sub-scopes through the journal, once; growth stops at a sub-scope's ceiling; the
// UNSETTLED entry of a dead owner says where its hold counted.
func TestScopesHealGrowAndExpire(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "cost_center research 0 0 100", "agent * 0 0 300")))
	r := w.start()
	status, made := r.reserve("acme", "r1", 40, centre("research"), agent("a"))
	w.want("reserve", status, made, 201)
	status, out, _ := r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], object{"output_tokens_so_far": 101})
	w.want("grows too large", status, out, 200, "stop", "true", "reason", "tenant_quota_exceeded")
	status, out, _ = r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], object{"output_tokens_so_far": 90})
	w.want("grows", status, out, 200, "stop", "false")
	of := func(kind, id string) string { return scopeOf(budgetFor(r, "a"), kind, id, "month", "own_usd") }
	if of("cost_center", "research") != "0.9" || of("agent", "a") != "0.9" {
		t.Errorf("%v", budgetFor(r, "a")["scopes"])
	}
	e := w.entry("e1", "gone", reservedAt(t, made), weirv1.OwnMode_OWN_MODE_JOURNAL, 50_000_000)
	e.Scopes = []*weirv1.ScopeKey{{Kind: weirv1.ScopeKind_SCOPE_KIND_AGENT, Id: "a"}}
	w.journal(e, e)
	w.eventually("the journal reaches the agent", func() error {
		if got := of("agent", "a"); got != "0.95" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	if of("cost_center", "research") != "0.9" {
		t.Error("the entry was not of research")
	}
	status, out = r.reserve("acme", "r2", 10, centre("research"), object{"lease_seconds": 1})
	w.want("short", status, out, 201)
	w.eventually("expired", func() error {
		for _, row := range w.outboxRows() {
			ev, err := usageevent.Decode(row.payload, nil)
			if err == nil && ev.Type == usageevent.TypeUnsettled && fmt.Sprint(ev.Data.Reservation.Scopes) == "map[cost_center:research]" && ev.Data.APIKeyID != "" {
				return nil
			}
		}
		return fmt.Errorf("%d rows", len(w.outboxRows()))
	})
	if of("cost_center", "research") != "1" {
		t.Error("the estimate of a dead owner stays counted")
	}
}

func budgetFor(r *replica, agent string) object {
	r.w.t.Helper()
	status, b, _ := r.do("GET", "/v1/budget?agent_id="+agent, r.w.keys["acme"], nil)
	r.w.want("budget", status, b, 200)
	return b
}

// Goal: reservations of one batch are decided one after the other in their sub-scopes, too.
func TestScopesInABatch(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "agent * 0 100 0", "cost_center research 0 150 0")))
	r := w.start()
	item := func(id string, cents int, agent string) object {
		return object{"reservation_id": id, "provider": "openai", "model": "flat", "agent_id": agent, "cost_center": "research",
			"estimate": object{"input_tokens": 0, "max_output_tokens": cents}}
	}
	status, out, _ := r.do("POST", "/v1/reservations:batch", w.keys["acme"], object{"reservations": []object{
		item("r1", 70, "a"), item("r2", 40, "a"), item("r3", 70, "b"), item("r4", 20, "c"), item("r5", 10, "c"), item("r1", 70, "a")}})
	w.want("batch", status, out, 200)
	var got []string
	for _, one := range out["results"].([]any) {
		result := one.(object)
		refused, _ := result["problem"].(object)
		got = append(got, fmt.Sprint(result["status"], " ", scopeText(refused)))
	}
	if text := strings.Join(got, ", "); text != "201 <nil> <nil>, 429 agent a, 201 <nil> <nil>, 429 cost_center research, 201 <nil> <nil>, 200 <nil> <nil>" {
		t.Errorf("%s", text)
	}
	if used := scopeOf(r.budget("acme"), "cost_center", "research", "day", "used_usd"); used != "1.5" {
		t.Errorf("research %s", used)
	}
}

// Goal: the whole way, with relay, attributor and aggregator: an agent's usage from Kafka refuses its next reservation, an
// actual above its estimate counts, a late figure takes the UNSETTLED one back, and own in Redis is the aggregator's.
func TestScopesEndToEnd(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "agent * 0 100 0", "cost_center research 0 0 300", "api_key * 0 1000 0")))
	w.pipeline()
	r := w.start()
	ev := usageevent.Event{ID: "k1", Source: "app", Type: usageevent.TypeUsage, Subject: "acme", Time: time.Now(), Data: usageevent.Data{Provider: "openai", Model: "flat",
		AgentID: "busy", CostCenter: "research", Meters: map[string]money.Decimal{"output_tokens": money.NewDecimal(70)}}}
	w.publish(bus.NewRecord(topics.UsageEvents, "acme", []byte("acme"), usageevent.Encode(ev)))
	w.eventually("the agent's external usage", func() error {
		if got := scopeOf(budgetFor(r, "busy"), "agent", "busy", "day", "external_usd"); got != "0.7" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	status, out := r.reserve("acme", "r1", 31, agent("busy"), centre("research"))
	w.want("refused", status, out, 429, "window", "day", "used", "0.7")
	status, out = r.reserve("acme", "r2", 30, agent("busy"), centre("research"))
	w.want("fits", status, out, 201)
	status, out = r.settle("acme", "r2", object{"meters": object{"output_tokens": 45}})
	w.want("overage", status, out, 200, "overage_usd", "0.15")
	status, out = r.reserve("acme", "r3", 100, agent("dead"), centre("research"), object{"lease_seconds": 1})
	w.want("an owner that dies", status, out, 201)
	w.eventually("expired", func() error {
		if status, out, _ := r.do("GET", "/v1/reservations/r3", w.keys["acme"], nil); out["state"] != "expired" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, out = r.settle("acme", "r3", object{"meters": object{"output_tokens": 10}})
	w.want("late", status, out, 200, "late", "true")
	w.eventually("own and external of research", func() error {
		b := budgetFor(r, "dead")
		own, external := scopeOf(b, "cost_center", "research", "month", "own_usd"), scopeOf(b, "cost_center", "research", "month", "external_usd")
		if own != "1.45" || external != "-0.2" { // 0.45 + 1.00 · 0.70 - 1.00 + 0.10
			return fmt.Errorf("%s and %s", own, external)
		}
		if got := scopeOf(b, "agent", "dead", "day", "used_usd"); got != "0.1" {
			return fmt.Errorf("the dead one's day is %s", got)
		}
		return nil
	})
	w.eventually("own is the aggregator's own", func() error { return w.ownAgrees(r, window.Scope{Kind: window.CostCenter, ID: "research"}) })
	id, _, err := identity.SplitAPIKey(w.keys["acme"])
	w.must(err)
	status, out, _ = r.do("POST", "/v1/events", w.keys["acme"], object{"specversion": "1.0", "id": "e1", "source": "agents/7", "type": "weir.usage.v1",
		"data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 5}, "api_key_id": "another"}}, "Content-Type", "application/cloudevents+json")
	w.want("event", status, out, 204)
	w.eventually("what a key sends is the key's", func() error {
		if got := scopeOf(r.budget("acme"), "api_key", id, "day", "external_usd"); got != "-0.85" { // - 1.00 + 0.10 + 0.05
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	w.eventually("the key's too", func() error { return w.ownAgrees(r, window.Scope{Kind: window.APIKey, ID: id}) })
}

// ownAgrees compares own of a sub-scope's month in Redis, holds apart, with the newest total of the topic.
func (w *world) ownAgrees(r *replica, scope window.Scope) error {
	var newest *weirv1.WindowTotal
	for p := range int32(topics.BudgetWindows.Partitions()) {
		err := w.conn.ReadPartition(context.Background(), topics.BudgetWindows, p, -1, -1, func(rec bus.Record) error {
			m := new(weirv1.WindowTotal)
			if err := proto.Unmarshal(rec.Value, m); err != nil {
				return err
			}
			if m.GetBaseEpoch() == 0 && m.GetScopeId() == scope.ID && m.GetKind() == weirv1.WindowKind_WINDOW_KIND_MONTH {
				newest = m
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	tenant, err := r.svc.of("acme")
	if err != nil {
		return err
	}
	b, err := r.svc.counters.ScopeBudget(context.Background(), tenant, scope, admit.CalendarAt(time.Now(), w.zone), admit.Limits{})
	if err != nil {
		return err
	}
	if newest == nil || int64(b.Month.Own-b.Month.Held) != newest.GetOwnNanos() || int64(b.Month.External) != newest.GetExternalNanos() {
		return fmt.Errorf("Redis %+v, topic %v", b.Month, newest)
	}
	return nil
}
