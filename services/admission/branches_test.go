//go:build integration

package admission

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// family is one execution whose agents are started by name.
type family struct {
	*replica
	tokens, branches map[string]any
}

// start gives an agent its token: "" is nobody, so the agent is the root's. usd "" asks for no lower limit.
func (f *family) start(parent, agent, usd string) object {
	f.w.t.Helper()
	body := object{"agent_id": agent}
	if parent != "" {
		body["parent_token"] = f.tokens[parent]
	}
	if usd != "" {
		body["max_cost_usd"] = usd
	}
	status, out, _ := f.do("POST", "/v1/executions", f.w.keys["acme"], body)
	f.w.want("start "+agent, status, out, 201)
	f.tokens[agent], f.branches[agent] = out["token"], out["branch_id"]
	return out
}

func newFamily(r *replica, usd string) *family {
	f := &family{r, map[string]any{}, map[string]any{}}
	f.start("", "lead", usd)
	return f
}

func (f *family) with(agent string) object { return object{"execution_token": f.tokens[agent]} }

// ask reserves cents for an agent; refused by "agent" names whose limit it must be, "root" the root's.
func (f *family) ask(agent, id string, cents int, refusedBy ...string) object {
	f.w.t.Helper()
	status, out := f.reserve("acme", id, cents, f.with(agent))
	if len(refusedBy) == 0 {
		f.w.want(id, status, out, 201)
		return out
	}
	f.w.want(id, status, out, 403, "code", "execution_budget_exceeded", "limit", "max_cost_usd")
	want := "<nil> <nil>"
	if refusedBy[0] != "root" {
		want = fmt.Sprint("execution_branch ", f.branches[refusedBy[0]])
		if !strings.HasPrefix(fmt.Sprint(out["detail"]), want+", max_cost_usd: ") {
			f.w.t.Errorf("%s: %v", id, out["detail"])
		}
	}
	if scopeText(out) != want {
		f.w.t.Errorf("%s: refused by %s, want %s %s", id, scopeText(out), refusedBy[0], want)
	}
	return out
}

func (f *family) end(verb, id string, body object) object {
	f.w.t.Helper()
	status, out, _ := f.do("POST", "/v1/reservations/"+id+"/"+verb, f.w.keys["acme"], body)
	f.w.want(verb+" "+id, status, out, 200)
	return out
}

// has is what the store has of an agent's branch: own, held, external, in cents.
func (f *family) has(agent string) [3]int64 {
	f.w.t.Helper()
	t, err := f.svc.of("acme")
	f.w.must(err)
	x, err := f.svc.counters.Branch(context.Background(), t, fmt.Sprint(f.branches[agent]))
	f.w.must(err)
	cent := int64(dollar / 100)
	return [3]int64{int64(x.Own) / cent, int64(x.Held) / cent, int64(x.External) / cent}
}

func left(out object) string {
	x, _ := out["execution"].(object)
	return fmt.Sprint(x["remaining_usd"])
}

// Goal: a child's lower limit holds for it and all below it, beside the root's and any lower one further down, in single
// calls, in batches and as calls grow; what ends gives back; a sibling and the root do not notice, and are not ended.
func TestChildBudget(t *testing.T) {
	w := newWorld(t, one(contract()))
	f := newFamily(w.start(), "5")
	w.want("child", 201, f.start("lead", "scraper", "1"), 201, "max_cost_usd", "1", "depth", "1")
	w.want("no lower limit", 201, f.start("scraper", "helper", ""), 201, "max_cost_usd", "1")
	w.want("more than its parent", 201, f.start("scraper", "greedy", "4"), 201, "max_cost_usd", "1")
	w.want("less again", 201, f.start("helper", "enricher", "0.5"), 201, "max_cost_usd", "0.5")
	f.start("lead", "sibling", "3")
	if f.branches["lead"] != nil || f.branches["helper"] != f.branches["scraper"] || f.branches["greedy"] != f.branches["scraper"] ||
		f.branches["enricher"] == f.branches["scraper"] || !regexp.MustCompile("^b_[0-9a-f]{20}$").MatchString(fmt.Sprint(f.branches["enricher"])) {
		t.Fatalf("%v", f.branches)
	}

	if out := f.ask("lead", "r1", 150); left(out) != "3.5" {
		t.Errorf("the root: %v", out["execution"])
	}
	out := f.ask("enricher", "r2", 30)
	if x := out["execution"].(object); left(out) != "0.2" || fmt.Sprint(x["spent_usd"]) != "1.8" || fmt.Sprint(x["depth"]) != "3" {
		t.Errorf("the least of the chain: %v", x)
	}
	out = f.ask("enricher", "r3", 21, "enricher")
	w.want("figures", 403, out, 403, "used", "0.3", "asked", "0.21", "ceiling", "0.5")
	f.ask("helper", "r4", 60)
	out = f.ask("enricher", "r5", 15, "scraper")
	w.want("figures of the one above", 403, out, 403, "used", "0.9", "asked", "0.15", "ceiling", "1")
	f.ask("greedy", "r6", 11, "scraper")
	f.ask("sibling", "r7", 200)
	f.ask("sibling", "r8", 121, "root")

	if out = f.end("extend", "r2", object{"output_tokens_so_far": 41}); fmt.Sprint(out["stop"]) != "true" || out["reason"] != "execution_budget_exceeded" ||
		!strings.HasPrefix(fmt.Sprint(out["detail"]), fmt.Sprint("execution_branch ", f.branches["scraper"])) {
		t.Errorf("grows beyond what is left: %v", out)
	}
	f.end("extend", "r2", object{"output_tokens_so_far": 40})
	if f.has("enricher") != [3]int64{40, 40, 0} || f.has("scraper") != [3]int64{100, 100, 0} {
		t.Errorf("%v, %v", f.has("enricher"), f.has("scraper"))
	}
	f.end("settle", "r2", object{"meters": object{"output_tokens": 45}}) // above what it held: charged, and blocks
	f.end("release", "r4", nil)
	if f.has("enricher") != [3]int64{45, 0, 0} || f.has("scraper") != [3]int64{45, 0, 0} {
		t.Errorf("%v, %v", f.has("enricher"), f.has("scraper"))
	}
	item := func(id string, cents int, agent string) object {
		return object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"input_tokens": 0, "max_output_tokens": cents}, "execution_token": f.tokens[agent]}
	}
	status, batch, _ := f.do("POST", "/v1/reservations:batch", w.keys["acme"], object{"reservations": []object{
		item("b1", 5, "enricher"), item("b2", 1, "enricher"), item("b3", 50, "helper"), item("b4", 1, "greedy"), item("b5", 20, "lead")}})
	w.want("batch", status, batch, 200)
	var got []string
	for _, one := range batch["results"].([]any) {
		refused, _ := one.(object)["problem"].(object)
		got = append(got, fmt.Sprint(one.(object)["status"], " ", scopeText(refused)))
	}
	want := fmt.Sprintf("201 <nil> <nil>, 403 execution_branch %s, 201 <nil> <nil>, 403 execution_branch %s, 201 <nil> <nil>", f.branches["enricher"], f.branches["scraper"])
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	// Refused branches end nobody else: the breaker is not told to trip, but for the root's own limit.
	var trips []string
	w.eventually("the decisions", func() error {
		trips = nil
		return f.decisions(7, func(d *weirv1.Decision) {
			if d.GetTrip() {
				trips = append(trips, d.GetReservationId())
			}
		})
	})
	if !reflect.DeepEqual(trips, []string{"r8"}) {
		t.Errorf("trips of %v", trips)
	}
}

// decisions visits the refusals for a budget of an execution; an error while there are fewer than so many.
func (f *family) decisions(atLeast int, visit func(*weirv1.Decision)) error {
	n := 0
	for p := range int32(topics.AdmissionDecisions.Partitions()) {
		err := f.w.conn.ReadPartition(context.Background(), topics.AdmissionDecisions, p, -1, -1, func(rec bus.Record) error {
			d := new(weirv1.Decision)
			if err := proto.Unmarshal(rec.Value, d); err != nil {
				return err
			}
			if d.GetCode() == string(admit.ExecutionBudgetExceeded) {
				n++
				visit(d)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if n < atLeast {
		return fmt.Errorf("%d decisions", n)
	}
	return nil
}

// Goal: the two forms of the API say the same of a child's limit, member by member.
func TestChildBudgetParity(t *testing.T) {
	w := newWorld(t, one(contract()))
	b := w.startBoth()
	f := newFamily(b.replica, "5")
	key := w.keys["acme"]
	started := map[string]heard{}
	for form, over := range map[string]func(string, ask, ...string) heard{"http": b.overHTTP, "grpc": b.overGRPC} {
		h := over(key, ask{"StartExecution", "", object{"agent_id": "sub", "parent_token": f.tokens["lead"], "max_cost_usd": "1"}})
		started[form] = h
		if h.code != "ok" || h.raw["branch_id"] == nil {
			t.Fatalf("%s: %+v", form, h)
		}
		body := cents("r-"+form, 60)
		body["execution_token"] = h.raw["token"]
		if r := over(key, ask{"Reserve", "", body}); r.code != "ok" || left(r.raw) != "0.4" {
			t.Errorf("%s: %+v", form, r)
		}
		again := maps.Clone(body)
		again["reservation_id"] = "again-" + form
		web, rpc := b.overHTTP(key, ask{"Reserve", "", again}), b.overGRPC(key, ask{"Reserve", "", again})
		if web.code != "execution_budget_exceeded" || rpc.code != web.code || rpc.http != web.http || !reflect.DeepEqual(web.body, rpc.body) {
			t.Errorf("%s:\nHTTP: %+v\ngRPC: %+v", form, web, rpc)
		}
	}
	if a, b := named(started["http"].body), named(started["grpc"].body); !reflect.DeepEqual(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
}

// Goal: nobody gets around a limit by how it is asked for: by another's chain, an altered one, a limit above the parent's or
// of nothing; and a chain has an end.
func TestChildBudgetAttacks(t *testing.T) {
	w := newWorld(t, one(contract()))
	f := newFamily(w.start(), "5")
	f.start("lead", "a", "1")
	good := fmt.Sprint(f.tokens["a"])
	parts := strings.Split(good, ".")
	other := strings.Split(fmt.Sprint(f.tokens["lead"]), ".")
	for name, token := range map[string]string{
		"the root's claims under its signature": parts[0] + "." + other[1] + "." + parts[2], "no signature": parts[0] + "." + parts[1] + ".",
		"cut": good[:len(good)-8],
	} {
		status, out := f.reserve("acme", "x", 1, object{"execution_token": token})
		w.want(name, status, out, 401, "code", "unauthenticated")
		status, out, _ = f.do("POST", "/v1/executions", w.keys["acme"], object{"agent_id": "b", "parent_token": token})
		w.want(name, status, out, 401, "code", "unauthenticated")
	}
	for name, usd := range map[string]string{"below zero": "-1", "nothing": "0"} {
		status, out, _ := f.do("POST", "/v1/executions", w.keys["acme"], object{"agent_id": "b", "parent_token": good, "max_cost_usd": usd})
		if status != 400 {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
	for _, usd := range []string{"1", "1.000000001", "100"} { // as much as its parent has, or more: its parent's
		if out := f.start("a", "more", usd); fmt.Sprint(out["max_cost_usd"]) != "1" || f.branches["more"] != f.branches["a"] {
			t.Errorf("%s: %v", usd, out)
		}
	}
	agent, usd := "a", dollar
	for i := range admit.MaxBranches - 1 {
		usd -= 1000
		next := fmt.Sprint("deep", i)
		f.start(agent, next, usd.USD().String())
		agent = next
	}
	status, out, _ := f.do("POST", "/v1/executions", w.keys["acme"], object{"agent_id": "b", "parent_token": f.tokens[agent], "max_cost_usd": "0.1"})
	w.want("one level too many", status, out, 400, "code", "invalid_argument", "field", "max_cost_usd")
	f.start(agent, "deepest", "")
	f.ask("deepest", "r1", 99)
	f.ask("a", "r2", 2, "a")

	// A token of before there were chains is good, and only the root's limit holds for it.
	now := time.Now()
	old := identity.Execution{Tenant: "acme", Root: rootOf(t, f), Agent: "old", Depth: 1, MaxCost: dollar / 10, ExpiresAt: now.Add(time.Minute)}
	token, err := f.svc.cfg.TokenKey.SignExecutionToken(old, now)
	w.must(err)
	status, out = f.reserve("acme", "r3", 50, object{"execution_token": token})
	w.want("an old token", status, out, 201)
	if left(out) != "3.51" {
		t.Errorf("%v", out["execution"])
	}
}

// rootOf is the family's root execution.
func rootOf(t *testing.T, f *family) string {
	t.Helper()
	x, err := f.svc.catalogs.tokens.Verify(fmt.Sprint(f.tokens["lead"]), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return x.Root
}

// Goal: of 50 calls at once under a child's limit, by the child and its children, exactly what it lets comes through.
func TestChildBudgetAtOnce(t *testing.T) {
	w := newWorld(t, one(contract()))
	f := newFamily(w.start(), "100")
	f.start("lead", "a", "2")
	f.start("a", "below", "1.5")
	agents := []string{"a", "below"}
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			agent := agents[i%2]
			status, _ := f.reserve("acme", fmt.Sprint("r", i), 10, f.with(agent))
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(status)]++
			got[fmt.Sprint(agent, status)]++
		})
	}
	wg.Wait()
	if got["201"] != 20 || got["403"] != 30 || got["below201"] > 15 || f.has("a") != [3]int64{200, 200, 0} {
		t.Errorf("%v, %v", got, f.has("a"))
	}
}

// Goal: the whole way with relay, attributor and aggregator: a dead owner's call, a late figure, an amount that Redis missed and
// usage that went to Kafka with the child's token are all in the branch, and its total in the topic is Redis'. Then Redis is
// emptied, and the branch has exactly what it had.
func TestChildBudgetRecovers(t *testing.T) {
	w := newWorld(t, one(contract()))
	w.pipeline()
	f := newFamily(w.start(), "20")
	f.start("lead", "a", "3")
	f.start("a", "below", "1")
	status, out := f.reserve("acme", "dies", 50, f.with("below"), object{"lease_seconds": 1})
	w.want("an owner that dies", status, out, 201)
	w.eventually("expired", func() error {
		if status, out, _ := f.do("GET", "/v1/reservations/dies", w.keys["acme"], nil); out["state"] != "expired" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, out = f.settle("acme", "dies", object{"meters": object{"output_tokens": 10}})
	w.want("late", status, out, 200, "late", "true")
	f.ask("a", "paid", 70)
	f.end("settle", "paid", object{"meters": object{"output_tokens": 60}})
	w.publish(bus.NewRecord(topics.UsageEvents, "acme", []byte("acme"), usageevent.Encode(usageevent.Event{ID: "k1", Source: "app", Type: usageevent.TypeUsage,
		Time: time.Now(), Data: usageevent.Data{ExecutionToken: fmt.Sprint(f.tokens["below"]), Provider: "openai", Model: "flat",
			Meters: map[string]money.Decimal{"output_tokens": money.NewDecimal(20)}}})))
	is := func(what string, a, below [3]int64) {
		t.Helper()
		w.eventually(what, func() error {
			if gotA, gotBelow := f.has("a"), f.has("below"); gotA != a || gotBelow != below {
				return fmt.Errorf("a %v, want %v; below %v, want %v", gotA, a, gotBelow, below)
			}
			return f.agrees("a", "below")
		})
	}
	is("settled, late and external", [3]int64{110, 0, -20}, [3]int64{50, 0, -20}) // 0.50 reversed, 0.10 late, 0.20 external

	kept, settled := f.ask("below", "kept", 30)["receipt"], f.ask("a", "settled", 25)["receipt"]
	stop := w.keep(f.replica, "kept", kept)
	defer stop()
	w.redisCommand("FLUSHALL")
	w.eventually("settled by its receipt", func() error {
		if status, out := f.settle("acme", "settled", object{"meters": object{"output_tokens": 24}, "receipt": settled}); status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	w.recovers(f.replica, "acme", "after")
	is("after", [3]int64{164, 30, -20}, [3]int64{80, 30, -20})
	f.ask("below", "more", 41, "below")
	f.ask("a", "most", 157, "a")
	f.ask("a", "rest", 156)
	stop()
	f.end("settle", "kept", object{"meters": object{"output_tokens": 11}, "receipt": kept})
	f.end("release", "rest", nil)
	is("the end", [3]int64{145, 0, -20}, [3]int64{61, 0, -20})
}

// agrees holds what Redis has of agents' branches against the aggregator's totals.
func (f *family) agrees(agents ...string) error {
	newest := map[string]*weirv1.WindowTotal{}
	for p := range int32(topics.BudgetWindows.Partitions()) {
		err := f.w.conn.ReadPartition(context.Background(), topics.BudgetWindows, p, -1, -1, func(rec bus.Record) error {
			m := new(weirv1.WindowTotal)
			if err := proto.Unmarshal(rec.Value, m); err != nil {
				return err
			}
			if m.GetBaseEpoch() == 0 && m.GetScopeKind() == weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH {
				newest[m.GetScopeId()] = m
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	t, err := f.svc.of("acme")
	if err != nil {
		return err
	}
	for _, agent := range agents {
		m := newest[fmt.Sprint(f.branches[agent])]
		var x budgetstore.ExecutionState
		if x, err = f.svc.counters.Branch(context.Background(), t, fmt.Sprint(f.branches[agent])); err != nil {
			return err
		}
		if int64(x.Own-x.Held) != m.GetOwnNanos() || int64(x.External) != m.GetExternalNanos() {
			return fmt.Errorf("%s: Redis %+v, topic %v", agent, x, m)
		}
	}
	return nil
}
