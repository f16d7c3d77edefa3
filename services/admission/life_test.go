//go:build integration

package admission

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

func one(k tenant.Contract) map[string]tenant.Contract { return map[string]tenant.Contract{"acme": k} }

// Goal: a reservation's ordinary life. Method: reserve, repeat, settle, repeat, and what the budget and the outbox say.
func TestReserveAndSettle(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	ask := object{"reservation_id": "r1", "provider": "openai", "model": "gpt-4o", "estimate": object{"input_tokens": 1000, "max_output_tokens": 200}, "agent_id": "lead"}
	status, first, _ := r.do("POST", "/v1/reservations", w.keys["acme"], ask)
	w.want("reserve", status, first, 201, "reservation_id", "r1", "state", "open", "rung", "0", "model", "gpt-4o", "percent_used", "0")
	if cost := first["reserved"].(object)["cost_usd"]; cost != "0.0045" {
		t.Errorf("reserved %v, want 1000 × $0.0000025 + 200 × $0.00001 = $0.0045", cost)
	}
	status, again, _ := r.do("POST", "/v1/reservations", w.keys["acme"], ask)
	if w.want("repeat", status, again, 200); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("a repeat answers otherwise:\n%v\n%v", again, first)
	}
	other := object{"reservation_id": "r1", "provider": "openai", "model": "gpt-4o", "estimate": object{"input_tokens": 1001, "max_output_tokens": 200}, "agent_id": "lead"}
	status, out, _ := r.do("POST", "/v1/reservations", w.keys["acme"], other)
	w.want("other content", status, out, 409, "code", "reservation_conflict")
	status, out, _ = r.do("GET", "/v1/reservations/r1", w.keys["acme"], nil)
	w.want("state", status, out, 200, "state", "open", "reserved_usd", "0.0045")
	if held := figureOf(r.budget("acme"), "day", "held_usd"); held != "0.0045" {
		t.Errorf("held %s", held)
	}

	used := object{"usage": object{"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}, "api": "chat.completions", "status": "SUCCESS"}
	status, settled := r.settle("acme", "r1", used)
	w.want("settle", status, settled, 200, "state", "settled", "cost_usd", "0.0035", "overage_usd", "0", "estimated", "false")
	status, out = r.settle("acme", "r1", used)
	if w.want("settle again", status, out, 200); fmt.Sprint(out) != fmt.Sprint(settled) {
		t.Errorf("a repeat answers otherwise: %v", out)
	}
	used["usage"] = object{"prompt_tokens": 1000, "completion_tokens": 101}
	status, out = r.settle("acme", "r1", used)
	w.want("settle otherwise", status, out, 409, "code", "reservation_conflict", "state", "settled")
	status, out, _ = r.do("POST", "/v1/reservations/r1/release", w.keys["acme"], nil)
	w.want("release of a settled one", status, out, 409, "state", "settled")
	b := r.budget("acme")
	if figureOf(b, "day", "own_usd") != "0.0035" || figureOf(b, "day", "held_usd") != "0" || figureOf(b, "month", "used_usd") != "0.0035" {
		t.Errorf("budget after the settle: %v", b)
	}

	rows := w.outboxRows()
	if len(rows) != 1 || rows[0].key != "acme" || rows[0].kind != usageevent.TypeUsage || !strings.HasPrefix(rows[0].id, "settle:r1:") {
		t.Fatalf("outbox: %+v", rows)
	}
	if !identity.Verify(w.secret, rows[0].payload, rows[0].headers[identity.SignatureHeader]) {
		t.Error("the event's signature does not verify")
	}
	ev, err := usageevent.Decode(rows[0].payload, nil)
	if err != nil {
		t.Fatal(err)
	}
	res := ev.Data.Reservation
	if res == nil || res.OwnMode != usageevent.OwnModeDirect || res.OwnNanos != 3_500_000 || res.HeldNanos != 4_500_000 || ev.Data.AgentID != "lead" || ev.Subject != "acme" {
		t.Errorf("event: %+v %+v", ev, res)
	}
}

// Goal: every way a settle can be stated costs what it should. Method: one reservation of 30 cents a row.
func TestSettleForms(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	for i, c := range []struct {
		name string
		body object
		want []string
	}{
		{"meters", object{"meters": object{"output_tokens": 20}}, []string{"cost_usd", "0.2", "overage_usd", "0", "status", "SUCCESS"}},
		{"above the estimate", object{"meters": object{"output_tokens": 50}}, []string{"cost_usd", "0.5", "overage_usd", "0.2"}},
		{"failed, no usage", object{"status": "FAILED", "error_code": "429"}, []string{"cost_usd", "0", "status", "FAILED", "estimated", "false"}},
		{"failed, input used", object{"status": "FAILED", "meters": object{"input_tokens": 3}}, []string{"cost_usd", "0.03"}},
		{"cut, no usage", object{"status": "PARTIAL"}, []string{"cost_usd", "0.3", "estimated", "true"}},
		{"usage missing", object{"usage": object{"id": "x"}, "api": "chat.completions"}, []string{"cost_usd", "0.3", "estimated", "true"}},
		{"cut, with usage", object{"status": "PARTIAL", "meters": object{"output_tokens": 7}}, []string{"cost_usd", "0.07", "estimated", "false"}},
		{"a cache hit", object{"meters": object{"output_tokens": 0}}, []string{"cost_usd", "0", "estimated", "false"}},
		{"no meters are not free", object{"meters": object{}, "status": "SUCCESS"}, []string{"cost_usd", "0.3", "estimated", "true"}},
		{"nor is an empty usage", object{"usage": object{}}, []string{"cost_usd", "0.3", "estimated", "true"}},
		{"failed, output written", object{"status": "FAILED", "meters": object{"input_tokens": 3, "output_tokens": 20}}, []string{"cost_usd", "0.03", "estimated", "false"}},
		{"another model", object{"meters": object{"output_tokens": 100}, "model": "gpt-4o"}, []string{"cost_usd", "0.001"}},
		{"a meter without a price", object{"meters": object{"search_units": 1}}, []string{"cost_usd", "<nil>"}},
		{"an unknown model", object{"meters": object{"output_tokens": 1}, "model": "nope"}, []string{"cost_usd", "<nil>"}},
	} {
		id := fmt.Sprintf("f%d", i)
		status, out := r.reserve("acme", id, 30)
		w.want(c.name, status, out, 201)
		status, out = r.settle("acme", id, c.body)
		w.want(c.name, status, out, 200, c.want...)
	}
	for i, body := range []object{
		{"usage": object{"prompt_tokens": 1, "completion_tokens": 1}, "meters": object{"output_tokens": 1}},
		{"usage": object{"prompt_tokens": -1, "completion_tokens": 1}, "api": "chat.completions"},
		{"meters": object{"nonsense": 1}}, {"meters": object{"output_tokens": -1}}, {"status": "OK"}, {"unknown": 1}, {"receipt": "x.y"},
		{"usage": object{"a": 1}, "api": "nonsense"},
	} {
		id := fmt.Sprintf("b%d", i)
		r.reserve("acme", id, 30)
		status, out := r.settle("acme", id, body)
		w.want(fmt.Sprint(body), status, out, 400, "code", "invalid_argument")
	}
}

// Goal: Usage beats release, and each is idempotent (I11).
func TestRelease(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	_, made := r.reserve("acme", "r1", 30)
	for range 2 {
		status, out, _ := r.do("POST", "/v1/reservations/r1/release", w.keys["acme"], object{"receipt": made["receipt"]})
		w.want("release", status, out, 200, "state", "released")
	}
	if b := r.budget("acme"); figureOf(b, "day", "used_usd") != "0" || fmt.Sprint(b["limits"].(object)["concurrency"].(object)["used"]) != "0" {
		t.Errorf("after the release: %v", b)
	}
	if n := len(w.outboxRows()); n != 0 {
		t.Errorf("%d events after a release", n)
	}
	status, out := r.settle("acme", "r1", object{"meters": object{"output_tokens": 10}})
	w.want("usage after a release", status, out, 200, "late", "true", "cost_usd", "0.1")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 10}})
	w.want("again", status, out, 200, "late", "true")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 11}})
	w.want("otherwise", status, out, 409)
	rows := w.outboxRows()
	if len(rows) != 1 || !strings.HasPrefix(rows[0].id, "late:r1:") {
		t.Fatalf("outbox: %+v", rows)
	}
	status, out = r.reserve("acme", "r1", 30)
	w.want("the id is remembered", status, out, 409, "code", "reservation_conflict")
	status, out, _ = r.do("POST", "/v1/reservations/none/release", w.keys["acme"], nil)
	w.want("unknown", status, out, 404, "code", "reservation_not_found")
}

// Goal: an abandoned hold gives its concurrency back, stays counted, is written down once, and takes one late figure.
func TestExpiryAndLateSettle(t *testing.T) {
	k := contract()
	k.Limits.Concurrency = 1
	w := newWorld(t, one(k))
	later := w.movable()
	r, other := w.start(), w.start() // two reapers race for it
	status, made := r.reserve("acme", "r1", 30, object{"lease_seconds": 60})
	w.want("reserve", status, made, 201)
	status, out := r.reserve("acme", "r2", 30)
	w.want("one call at a time", status, out, 429, "code", "rate_limited", "limit", "concurrency")
	later(61 * time.Second)
	w.eventually("expired", func() error {
		_, out, _ := other.do("GET", "/v1/reservations/r1", w.keys["acme"], nil)
		if out["state"] != "expired" {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	status, out = r.reserve("acme", "r2", 30)
	w.want("the concurrency is free", status, out, 201)
	if used := figureOf(r.budget("acme"), "day", "used_usd"); used != "0.6" {
		t.Errorf("used %s, want the estimate to stay: 0.6", used)
	}
	rows := w.outboxRows()
	if len(rows) != 1 || rows[0].kind != usageevent.TypeUnsettled || !strings.HasPrefix(rows[0].id, "unsettled:r1:") {
		t.Fatalf("outbox: %+v", rows)
	}
	status, out, _ = r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], nil)
	w.want("extend of an expired one", status, out, 409, "state", "expired")
	status, out, _ = r.do("POST", "/v1/reservations/r1/release", w.keys["acme"], nil)
	w.want("release of an expired one", status, out, 409, "state", "expired")
	for range 2 {
		status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 12}, "receipt": made["receipt"]})
		w.want("late", status, out, 200, "late", "true", "cost_usd", "0.12")
	}
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 13}})
	w.want("late, otherwise", status, out, 409)
	if rows = w.outboxRows(); len(rows) != 2 || !strings.HasPrefix(rows[1].id, "late:r1:") {
		t.Fatalf("outbox: %+v", rows)
	}
	ev, err := usageevent.Decode(rows[1].payload, nil)
	if err != nil || ev.Data.Reservation.Outcome != usageevent.OutcomeLate || ev.Data.Reservation.OwnMode != "" {
		t.Errorf("late event: %+v, %v", ev, err)
	}
}

// Goal: an estimate takes one final figure, as a correction.
func TestEstimatedThenFinal(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	r.reserve("acme", "r1", 30)
	status, out := r.settle("acme", "r1", object{"status": "PARTIAL"})
	w.want("estimated", status, out, 200, "estimated", "true")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 9}, "status": "PARTIAL"})
	w.want("final", status, out, 200, "late", "true", "cost_usd", "0.09", "estimated", "false")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 8}, "status": "PARTIAL"})
	w.want("another", status, out, 409)
}

// Goal: a heartbeat moves the lease and grows the hold, and says stop when the growth does not fit.
func TestExtend(t *testing.T) {
	k := contract()
	k.Ceilings.Minute = dollar
	w := newWorld(t, one(k))
	r := w.start()
	_, made := r.reserve("acme", "r1", 30, object{"lease_seconds": 30})
	extend := func(body object) (int, object) {
		status, out, _ := r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], body)
		return status, out
	}
	status, out := extend(object{"lease_seconds": 60})
	w.want("extend", status, out, 200, "stop", "false")
	if fmt.Sprint(out["expires_at"]) <= fmt.Sprint(made["expires_at"]) {
		t.Errorf("the lease did not move: %v, %v", made["expires_at"], out["expires_at"])
	}
	status, out = extend(object{"output_tokens_so_far": 50})
	w.want("grow", status, out, 200, "stop", "false")
	if held := figureOf(r.budget("acme"), "day", "held_usd"); held != "0.5" {
		t.Errorf("held %s, want 0.5", held)
	}
	status, out = extend(object{"output_tokens_so_far": 101})
	w.want("beyond the ceiling", status, out, 200, "stop", "true", "reason", "tenant_quota_exceeded")
	status, out = extend(object{"output_tokens_so_far": -1})
	w.want("negative", status, out, 400, "field", "output_tokens_so_far")
	status, out = extend(object{"output_tokens_so_far": 1<<53 - 1})
	w.want("dearer than can be counted", status, out, 400, "code", "invalid_argument", "field", "output_tokens_so_far")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 40}})
	w.want("settle", status, out, 200, "cost_usd", "0.4", "reserved_usd", "0.5", "overage_usd", "0")
}

// Goal: $1.00 a minute and simultaneous reservations of $0.30 admit exactly three (field report 1), whatever the number
// of replicas.
func TestExactlyThree(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			k := contract()
			k.Ceilings.Minute = dollar
			w := newWorld(t, one(k))
			var rs []*replica
			for range replicas {
				rs = append(rs, w.start())
			}
			var mu sync.Mutex
			var start, done sync.WaitGroup
			start.Add(1)
			count := map[string]int{}
			for i := range 10 {
				done.Go(func() {
					start.Wait()
					status, out := rs[i%replicas].reserve("acme", fmt.Sprintf("r%d", i), 30)
					mu.Lock()
					defer mu.Unlock()
					count[fmt.Sprint(status, " ", out["code"], " ", out["window"])]++
				})
			}
			start.Done()
			done.Wait()
			if count["201 <nil> <nil>"] != 3 || count["429 tenant_quota_exceeded minute"] != 7 {
				t.Fatalf("%v", count)
			}
			if left := r0(rs).budget("acme")["remaining"].(object)["minute_usd"]; left != "0.1" {
				t.Errorf("left %v: the refusals changed something", left)
			}
		})
	}
}

func r0(rs []*replica) *replica { return rs[0] }

// Goal: fail closed, and nothing else. Method: Redis is paused, and each refusal is timed.
func TestRedisPaused(t *testing.T) {
	w := newWorld(t, one(contract()))
	soon := func(c *Config) { c.Deadline = time.Second }
	r, other := w.start(soon), w.start(soon)
	made := r.admitted("acme", "before", 30)
	r.admitted("acme", "known", 30)
	w.must(syscall.Kill(w.redis.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(w.redis.PID, syscall.SIGCONT) })
	w.within("a refusal", 1500*time.Millisecond, func(n int) time.Duration {
		begin := time.Now()
		status, out := r.reserve("acme", fmt.Sprintf("p%d", n), 30)
		w.want("paused", status, out, 503, "code", "budget_store_unavailable")
		return time.Since(begin)
	})
	// Settling goes on, by the receipt: Postgres decides, the journal will add it. The replica that granted it needs none, and
	// knows of the hold: the script will be repeated.
	out := other.settled("acme", "before", object{"meters": object{"output_tokens": 20}, "receipt": made["receipt"]})
	w.want("settle while paused", 200, out, 200, "cost_usd", "0.2")
	out = r.settled("acme", "known", object{"meters": object{"output_tokens": 20}})
	w.want("settle where it was granted, while paused", 200, out, 200, "cost_usd", "0.2")
	status, out := r.settle("acme", "unheard", object{"meters": object{"output_tokens": 20}})
	w.want("settle without a receipt", status, out, 503, "code", "budget_store_unavailable")
	for i, want := range []string{usageevent.OwnModeJournal, usageevent.OwnModeDirect} {
		ev, err := usageevent.Decode(w.outboxRows()[i].payload, nil)
		if err != nil || ev.Data.Reservation.OwnMode != want {
			t.Errorf("event: %+v, %v; want mode %s", ev, err, want)
		}
	}
	w.must(syscall.Kill(w.redis.PID, syscall.SIGCONT))
	w.eventually("recovered", func() error {
		status, out := r.reserve("acme", "after", 30)
		if status != 201 && status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
}

// Goal: an emptied Redis is never a fresh budget, for tenants old and new, with the epoch restored by hand or not.
func TestRedisEmptied(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "fresh": contract()})
	r := w.start()
	status, out := r.reserve("acme", "before", 30)
	w.want("before", status, out, 201)
	w.redisCommand("FLUSHALL")
	refuse := func(what string, who string) {
		t.Helper()
		for i := range 20 {
			status, out, header := r.do("POST", "/v1/reservations", w.keys[who], object{"reservation_id": fmt.Sprintf("%s-%d", what[:3], i), "provider": "openai", "model": "flat",
				"estimate": object{"input_tokens": 1, "max_output_tokens": 1}})
			w.want(what, status, out, 503, "code", "budget_store_recovering")
			if header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	refuse("emptied", "acme")
	refuse("emptied, a tenant without a state", "fresh")
	w.redisCommand("SET w:epoch 4711") // somebody tries to help
	refuse("epoch restored", "acme")
	status, out, _ = r.do("GET", "/v1/budget", w.keys["acme"], nil)
	w.want("budget", status, out, 503, "code", "budget_store_recovering")
	// A replica that starts in the middle of it admits nothing either.
	r = &replica{w: w, url: w.startUnready().url}
	w.eventually("catalogs loaded", func() error {
		if _, out := r.reserve("acme", "x", 1); out["code"] != "budget_store_recovering" {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	refuse("another replica", "acme")
}

// Goal: tokens carry depth and limits, which only fall, and Redis enforces them for the whole tree.
func TestExecutions(t *testing.T) {
	k := contract()
	k.Execution = tenant.Execution{MaxCost: 5 * dollar, MaxDepth: 3, MaxCalls: 4}
	w := newWorld(t, map[string]tenant.Contract{"acme": k, "beta": contract()})
	r := w.start()
	start := func(who string, body object) (int, object) {
		status, out, _ := r.do("POST", "/v1/executions", w.keys[who], body)
		return status, out
	}
	status, root := start("acme", object{"root_execution_id": "x1", "agent_id": "lead", "cost_center": "sales", "max_cost_usd": "1", "max_depth": 2})
	w.want("root", status, root, 201, "root_execution_id", "x1", "depth", "0", "max_depth", "2", "max_cost_usd", "1")
	status, child := start("acme", object{"parent_token": root["token"], "agent_id": "scraper"})
	w.want("child", status, child, 201, "root_execution_id", "x1", "depth", "1")
	status, grandchild := start("acme", object{"parent_token": child["token"], "agent_id": "enricher", "max_cost_usd": "9"})
	w.want("grandchild", status, grandchild, 201, "depth", "2", "max_cost_usd", "1")
	status, out := start("acme", object{"parent_token": grandchild["token"], "agent_id": "deeper"})
	w.want("too deep", status, out, 403, "code", "execution_depth_exceeded")
	status, out = start("acme", object{"root_execution_id": "x1", "agent_id": "lead", "max_cost_usd": "4"})
	w.want("resumed: limits do not rise", status, out, 201, "max_cost_usd", "1", "max_depth", "2")
	status, out = start("beta", object{"parent_token": root["token"], "agent_id": "a"})
	w.want("a token of another tenant", status, out, 403, "code", "forbidden_tenant")
	status, out = start("acme", object{"parent_token": fmt.Sprint(root["token"]) + "x", "agent_id": "a"})
	w.want("altered", status, out, 401, "code", "unauthenticated")

	status, out = r.reserve("acme", "c1", 60, object{"execution_token": child["token"], "agent_id": "somebody-else"})
	w.want("within the root's budget", status, out, 201)
	x := out["execution"].(object)
	if x["spent_usd"] != "0.6" || x["remaining_usd"] != "0.4" || fmt.Sprint(x["depth"]) != "1" {
		t.Errorf("execution: %v", x)
	}
	status, out = r.reserve("acme", "c2", 50, object{"execution_token": grandchild["token"]})
	w.want("the tree's budget", status, out, 403, "code", "execution_budget_exceeded", "limit", "max_cost_usd")
	status, out = r.reserve("acme", "c3", 30, object{"execution_token": root["token"]})
	w.want("another branch still fits", status, out, 201)
	status, out, _ = r.do("POST", "/v1/executions/x1/close", w.keys["acme"], nil)
	w.want("close", status, out, 200, "state", "closed")
	status, out, _ = r.do("POST", "/v1/executions/none/close", w.keys["acme"], nil)
	w.want("close of an unknown one", status, out, 404)
	status, out = start("acme", object{"agent_id": "lead"})
	if w.want("a new id is made", status, out, 201); !strings.HasPrefix(fmt.Sprint(out["root_execution_id"]), "x_") {
		t.Errorf("%v", out)
	}
}

// Goal: one credential for many tenants, and none for others; no outage and no lie is a 401.
func TestIdentity(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	service := w.publishKey("acme", "beta")
	nobody := w.publishKey("unknown-tenant")
	r := w.start()
	for _, c := range []struct {
		name, key, header string
		status            int
		code              string
	}{
		{"several tenants, none named", service, "", 400, "invalid_argument"}, {"first tenant", service, "acme", 200, "<nil>"}, {"second tenant", service, "beta", 200, "<nil>"},
		{"a tenant that is not its own", service, "gamma", 403, "forbidden_tenant"}, {"another's", w.keys["acme"], "beta", 403, "forbidden_tenant"},
		{"a tenant that does not exist", nobody, "", 403, "forbidden_tenant"}, {"no key", "", "", 401, "unauthenticated"},
		{"a wrong key", w.keys["acme"] + "a", "", 401, "unauthenticated"}, {"a JWT where none is configured", "a.b.c", "", 401, "unauthenticated"},
	} {
		status, out, header := r.do("GET", "/v1/budget", c.key, nil, tenantHeader, c.header)
		w.want(c.name, status, out, c.status, "code", c.code)
		if (header.Get("WWW-Authenticate") != "") != (c.status == http.StatusUnauthorized) {
			t.Errorf("%s: WWW-Authenticate %q", c.name, header.Get("WWW-Authenticate"))
		}
		if c.status == 200 && c.header != "" && out["tenant_id"] != c.header {
			t.Errorf("%s: %v", c.name, out["tenant_id"])
		}
	}
	// A header that is there twice names two callers.
	for name, want := range map[string]int{"Authorization": 401, tenantHeader: 400} {
		req, err := http.NewRequest("GET", r.url+"/v1/budget", nil)
		w.must(err)
		req.Header = http.Header{"Authorization": {"Bearer " + service}, tenantHeader: {"acme"}}
		req.Header.Add(name, req.Header.Get(name))
		resp, err := http.DefaultClient.Do(req)
		w.must(err)
		w.must(resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("%s twice: %d", name, resp.StatusCode)
		}
	}
	// A tenant in the body is a field that is unknown.
	status, out := r.reserve("acme", "r", 1, object{"tenant_id": "beta"})
	w.want("tenant in the body", status, out, 400, "code", "invalid_argument", "field", "tenant_id")
}

// Goal: a caller's JWT works end to end, and an identity provider that is away is a 503.
func TestJWT(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	var down atomic.Bool
	issuer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprintf(rw, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":"%s"}]}`, b64(public))
	}))
	t.Cleanup(issuer.Close)
	token := func(claims string) string {
		unsigned := b64([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." + b64([]byte(claims))
		return unsigned + "." + b64(ed25519.Sign(private, []byte(unsigned)))
	}
	exp := time.Now().Add(time.Hour).Unix()
	mapped := contract()
	mapped.Identities = []string{"jwt:org-7", "jwt:acme", "slack:org-8"} // a tenant's own id goes before a mapping
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": mapped})
	down.Store(true)
	r := w.start(func(c *Config) {
		c.JWKSURL, c.JWT = issuer.URL, identity.JWTConfig{Issuer: "idp", Audience: "weir", TenantClaim: "tenant"}
	})
	good := token(fmt.Sprintf(`{"iss":"idp","aud":"weir","sub":"s","tenant":"acme","exp":%d}`, exp))
	status, out, _ := r.do("GET", "/v1/budget", good, nil)
	w.want("the provider is away", status, out, 503, "code", "budget_store_unavailable")
	status, out, _ = r.do("GET", "/v1/budget", w.keys["acme"], nil)
	w.want("API keys go on", status, out, 200)
	down.Store(false)
	w.must(r.svc.jwks.Refresh(t.Context(), time.Now()))
	for _, c := range []struct{ claims, asked, want string }{
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"acme","exp":%d}`, "", "200 acme"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"org-7","exp":%d}`, "", "200 beta"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["beta","acme"],"exp":%d}`, "", "400 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["beta","acme"],"exp":%d}`, "beta", "200 beta"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["org-7","acme"],"exp":%d}`, "beta", "200 beta"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["org-7","acme"],"exp":%d}`, "org-7", "403 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["org-7","beta"],"exp":%d}`, "", "200 beta"}, // two names of one
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":["acme","org-9"],"exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"org-8","exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"jwt:org-7","exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"nobody","exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"other","sub":"s","tenant":"acme","exp":%d}`, "", "401 <nil>"},
		{`{"iss":"idp","aud":"weir","sub":"s","tenant":"acme","exp":1,"was":"%[1]d"}`, "", "401 <nil>"},
	} {
		status, out, _ := r.do("GET", "/v1/budget", token(fmt.Sprintf(c.claims, exp)), nil, tenantHeader, c.asked)
		if got := fmt.Sprint(status, " ", out["tenant_id"]); got != c.want {
			t.Errorf("%s for %q: %s, want %s: %v", c.claims, c.asked, got, c.want, out)
		}
	}
}
