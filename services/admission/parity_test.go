//go:build integration

package admission

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Goal: HTTP and gRPC are two forms of the same functions: the same requests in the same order, from tenants in the same
// state, get the same codes and the same members. Method: a random walk over all calls, one tenant by HTTP and its twin by
// gRPC, against one replica; times, tokens and receipts are compared by being there.
func TestParityWalk(t *testing.T) {
	k := contract()
	k.Limits = tenant.Limits{RequestsPerMinute: 400, Concurrency: 15, OpenExecutions: 4, OutputTokensPerMinute: 20_000}
	k.Ceilings = tenant.Ceilings{Minute: 90 * dollar, Day: 20 * dollar, Month: 400 * dollar}
	k.SoftDay, k.Execution.MaxDepth, k.Execution.MaxCalls, k.Markup = true, 2, 25, percent("10")
	k = k.WithScope(tenant.Scope{Scope: window.Scope{Kind: window.Agent, ID: "a1"}, Ceilings: tenant.Ceilings{Day: 2 * dollar}})
	w := newWorld(t, map[string]tenant.Contract{"web": k, "rpc": k})
	still := time.Now() // so that no second, minute or lease ends between a call and its twin
	w.now = func() time.Time { return still }
	w.storeClock = w.now
	b := w.startBoth()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	walk := &walker{random: rand.New(rand.NewPCG(seed, 1)), tokens: map[string][2]string{}, receipts: map[string][2]string{}}
	codes := map[string]int{}
	for i := range 700 {
		web, rpc := walk.next()
		overHTTP, overGRPC := b.overHTTP(w.keys["web"], web), b.overGRPC(w.keys["rpc"], rpc)
		codes[overHTTP.code]++
		if overHTTP.code != overGRPC.code || overHTTP.retry != overGRPC.retry || noTenant(overHTTP.rate) != noTenant(overGRPC.rate) ||
			overHTTP.code != "ok" && overHTTP.http != overGRPC.http || !reflect.DeepEqual(named(overHTTP.body), named(overGRPC.body)) {
			t.Fatalf("step %d: %s %s %v\nHTTP: %+v\ngRPC: %+v", i, web.method, web.id, web.body, overHTTP, overGRPC)
		}
		walk.learn(web, overHTTP.raw, overGRPC.raw)
	}
	t.Log(codes)
	for _, code := range []string{"ok", "reservation_conflict", "reservation_not_found", "invalid_argument", "execution_not_found", "tenant_quota_exceeded"} {
		if codes[code] == 0 {
			t.Errorf("the walk never came to %s: %v", code, codes)
		}
	}
}

// named has the twins' names replaced by one.
func named(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, inner := range v {
			out[k] = named(inner)
		}
		return out
	case []any:
		var out []any
		for _, inner := range v {
			out = append(out, named(inner))
		}
		return out
	default:
		return noTenant(fmt.Sprint(v))
	}
}

// twins are what differs between the two tenants by nature: names, times, and the random ids of branches.
var twins = regexp.MustCompile(`\b(web|rpc)\b|t=[0-9]+|\bb_[0-9a-f]{20}\b`)

func noTenant(text string) string { return twins.ReplaceAllString(text, "<twin>") }

// walker thinks of requests, and remembers what it was given: a token or receipt of each twin.
type walker struct {
	random           *rand.Rand
	tokens, receipts map[string][2]string
	order            []string // of tokens
}

func (k *walker) id(kind string, n int) string { return fmt.Sprintf("%s%d", kind, k.random.IntN(n)) }

func pick[T any](k *walker, from ...T) T { return from[k.random.IntN(len(from))] }

// next is a request for each twin: alike but for tokens and receipts.
func (k *walker) next() (web, rpc ask) {
	switch n := k.random.IntN(20); {
	case n < 7:
		return k.reservation("Reserve")
	case n < 8:
		return k.batch()
	case n < 11:
		return k.settle()
	case n < 12:
		return k.withReceipt("Release", object{})
	case n < 14:
		return k.withReceipt("Extend", pick(k, object{}, object{"lease_seconds": 30}, object{"output_tokens_so_far": 5}, object{"output_tokens_so_far": 3000}, object{"lease_seconds": -1}))
	case n < 16:
		return k.execution()
	case n < 17:
		return same(ask{"CloseExecution", pick(k, k.id("x", 6), "never-started", "bad id!"), object{}})
	case n < 18:
		return same(ask{"GetReservation", pick(k, k.id("r", 60), "-"), nil})
	case n < 19:
		return same(ask{"GetBudget", "", object{}})
	default:
		return same(k.events())
	}
}

func same(a ask) (ask, ask) {
	if a.id == "bad id!" {
		a.id = "bad%7Eid" // no id in either form
	}
	return a, a
}

func (k *walker) reserveBody() (object, string) {
	body := object{"reservation_id": k.id("r", 60), "provider": "openai", "model": "flat", "estimate": object{"input_tokens": 0, "max_output_tokens": pick(k, 1, 10, 100, 200, 400)}}
	switch k.random.IntN(12) {
	case 0:
		body["provider"] = pick(k, "", "a b", "azure")
	case 1:
		body["model"] = pick(k, "gpt-4o", "unheard-of")
	case 2:
		body["estimate"] = pick(k, object{"input_tokens": -1}, object{"nonsense_meter": 3}, object{"input_tokens": 1.5, "max_output_tokens": 2}, object{},
			object{"input_tokens": "12", "max_tokens": 40}, object{"max_output_tokens": 10_000}, object{"max_output_tokens": "1o"})
	}
	if k.random.IntN(3) == 0 {
		body["effect"] = pick(k, "read", "write", "write", "neither")
	}
	if k.random.IntN(3) == 0 {
		body["agent_id"], body["cost_center"], body["lease_seconds"] = k.id("a", 3), pick(k, "research", "research", "research", "bad cost!"), pick(k, 60, 0, 60, 90000)
	}
	token := ""
	if len(k.order) > 0 && k.random.IntN(2) == 0 {
		token = pick(k, k.order...)
	}
	return body, token
}

func (k *walker) reservation(method string) (web, rpc ask) {
	body, token := k.reserveBody()
	return k.twice(ask{method, "", body}, "execution_token", k.tokens[token])
}

// twice is a request with what each twin was given of its own.
func (k *walker) twice(a ask, member string, given [2]string) (web, rpc ask) {
	web, rpc = a, ask{a.method, a.id, object{}}
	for name, v := range a.body {
		rpc.body[name] = v
	}
	if given[0] != "" {
		web.body[member], rpc.body[member] = given[0], given[1]
	}
	return web, rpc
}

func (k *walker) batch() (web, rpc ask) {
	var first, second []any
	for range k.random.IntN(4) {
		a, b := k.reservation("Reserve")
		first, second = append(first, a.body), append(second, b.body)
	}
	if first == nil {
		first, second = []any{}, []any{}
	}
	return ask{"ReserveBatch", "", object{"reservations": first}}, ask{"ReserveBatch", "", object{"reservations": second}}
}

func (k *walker) settle() (web, rpc ask) {
	body := object{"status": pick(k, "", "SUCCESS", "SUCCESS", "FAILED", "PARTIAL", "MAYBE")}
	switch k.random.IntN(6) {
	case 5:
		body["cache_hit"] = pick(k, "exact", "semantic", "lucky")
	case 0:
		body["meters"] = object{"input_tokens": 2, "output_tokens": pick(k, 3, 4)}
	case 1:
		body["usage"] = object{"prompt_tokens": 3, "completion_tokens": pick(k, 1, 600), "total_tokens": 4}
	case 2:
		body["usage"], body["api"] = object{"input_tokens": 3, "output_tokens": 1}, pick(k, "responses", "no-such-api")
	case 3:
		body["meters"], body["error_code"], body["response_id"] = object{"output_tokens": "x1"}, "boom\n", "resp_1"
	}
	return k.withReceipt("Settle", body)
}

func (k *walker) withReceipt(method string, body object) (web, rpc ask) {
	id := k.id("r", 60)
	given := k.receipts[id]
	if k.random.IntN(2) == 0 {
		given = [2]string{}
	}
	if k.random.IntN(20) == 0 {
		given = [2]string{"forged", "forged"}
	}
	copied := object{}
	for name, v := range body {
		copied[name] = v
	}
	return k.twice(ask{method, id, copied}, "receipt", given)
}

func (k *walker) execution() (web, rpc ask) {
	body := object{"agent_id": pick(k, k.id("a", 3), "")}
	switch k.random.IntN(6) {
	case 0:
		body["max_cost_usd"] = pick(k, "0.50", "1e-3", "-1", "much")
	case 1:
		body["max_depth"] = pick(k, 1, 0, 3)
	case 2:
		body["cost_center"] = "research"
	}
	if len(k.order) > 0 && k.random.IntN(2) == 0 {
		return k.twice(ask{"StartExecution", "", body}, "parent_token", k.tokens[pick(k, k.order...)])
	}
	if k.random.IntN(15) == 0 {
		body["parent_token"] = "forged"
	}
	body["root_execution_id"] = k.id("x", 6)
	return k.twice(ask{"StartExecution", "", body}, "", [2]string{})
}

func (k *walker) events() ask {
	event := object{"specversion": "1.0", "id": k.id("e", 1000), "source": "walk", "type": "weir.usage.v1", "time": "2026-11-30T12:00:00Z",
		"data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 1}}}
	wrong := object{"specversion": "1.0", "id": "x", "source": pick(k, "weir/admission", "walk"), "type": pick(k, "weir.usage.v1", "other"), "data": object{"provider": "openai"}}
	return ask{"SendEvents", "", object{"events": pick(k, []any{event}, []any{event, wrong}, []any{})}}
}

// learn remembers tokens and receipts.
func (k *walker) learn(a ask, web, rpc object) {
	if token, ok := web["token"].(string); ok {
		name := fmt.Sprint(len(k.order))
		k.tokens[name] = [2]string{token, fmt.Sprint(rpc["token"])}
		k.order = append(k.order, name)
	}
	if receipt, ok := web["receipt"].(string); ok {
		k.receipts[fmt.Sprint(a.body["reservation_id"])] = [2]string{receipt, fmt.Sprint(rpc["receipt"])}
	}
}

// Goal: times are the same in both forms, to the nanosecond, and so is everything of one reservation that both are told.
func TestParityOfOneReservation(t *testing.T) {
	w := newWorld(t, one(contract()))
	b := w.startBoth()
	key := w.keys["acme"]
	made := b.overHTTP(key, ask{"Reserve", "", cents("r1", 5)})
	again := b.overGRPC(key, ask{"Reserve", "", cents("r1", 5)})
	if again.raw["replayed"] != true {
		t.Errorf("a repeat does not say so: %v", again.raw)
	}
	for _, step := range []ask{{"GetReservation", "r1", nil}, {"Settle", "r1", object{"meters": object{"output_tokens": 4}}}, {"GetReservation", "r1", nil}} {
		web, rpc := b.overHTTP(key, step), b.overGRPC(key, step)
		sameTimes(t, web.raw, rpc.raw)
		if !reflect.DeepEqual(web.body, rpc.body) || web.code != "ok" || rpc.code != "ok" {
			t.Errorf("%s:\n%v\n%v", step.method, web, rpc)
		}
	}
	sameTimes(t, made.raw, again.raw)
	if made.raw["receipt"] != again.raw["receipt"] {
		t.Error("another receipt")
	}
}

func sameTimes(t *testing.T, web, rpc object) {
	t.Helper()
	for _, name := range []string{"reserved_at", "expires_at"} {
		if web[name] == nil && rpc[name] == nil {
			continue
		}
		a, err := time.Parse(time.RFC3339Nano, fmt.Sprint(web[name]))
		b, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(rpc[name]))
		if err != nil || err2 != nil || !a.Equal(b) {
			t.Errorf("%s: %v over HTTP, %v over gRPC", name, web[name], rpc[name])
		}
	}
}
