//go:build integration

package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/testkit"
)

// kill publishes as `weir kill` does.
func (w *world) kill(k admit.Kill) {
	w.t.Helper()
	value, err := catalog.EncodeKill(k)
	w.must(err)
	w.publish(bus.NewRecord(topics.ControlKillswitch, string(k.Scope), []byte(k.Scope), value))
}

// becomes waits until a reservation is answered so, and returns how long that took.
func (r *replica) becomes(what, tenant, model string, wantStatus int, wantCode string) time.Duration {
	r.w.t.Helper()
	begin := time.Now()
	r.w.eventually(what, func() error {
		status, out, header := r.do("POST", "/v1/reservations", r.w.keys[tenant], object{"reservation_id": fmt.Sprint("k", time.Now().UnixNano()),
			"provider": "openai", "model": model, "estimate": object{"input_tokens": 1, "max_output_tokens": 1}})
		if status != wantStatus || fmt.Sprint(out["code"]) != wantCode {
			return fmt.Errorf("%d %v", status, out)
		}
		if status == 503 && (header.Get("Retry-After") != "" || out["retry_after_ms"] != nil) {
			return fmt.Errorf("a kill is not to be retried: %v", header)
		}
		return nil
	})
	return time.Since(begin)
}

// Goal: each scope stops what it names within a second, also calls that run, and lets go again. What was spent is still
// taken.
func TestKillScopes(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	r := w.start()
	status, out := r.reserve("acme", "running", 5)
	w.want("before", status, out, 201)
	version := int64(0)
	for _, c := range []struct {
		scope              admit.KillScope
		acme, beta, gpt    bool // refused: acme's and beta's calls of "flat", acme's of gpt-4o
		execution, running bool // refused: acme's executions; told to stop: acme's running call
	}{
		{admit.KillAll, true, true, true, true, true}, {admit.KillTenant("acme"), true, false, true, true, true},
		{admit.KillProvider("openai"), true, true, true, false, true}, {admit.KillModel("gpt-4o"), false, false, true, false, false},
		{admit.KillModel("flat"), true, true, false, false, true}, {admit.KillModel("fla"), false, false, false, false, false},
	} {
		version++
		w.kill(admit.Kill{Scope: c.scope, On: true, Version: version, Reason: "drill 7"})
		w.eventually("applied", func() error {
			if k, ok := r.svc.kills.known.Set().Get(c.scope); !ok || !k.On {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		for _, probe := range []struct {
			tenant, model string
			refused       bool
		}{{"acme", "flat", c.acme}, {"beta", "flat", c.beta}, {"acme", "gpt-4o", c.gpt}, {"acme", "gpt-4o-2024-08-06", c.gpt}} {
			if probe.refused {
				r.becomes(fmt.Sprint(c.scope, probe), probe.tenant, probe.model, 503, "killed")
			} else {
				r.becomes(fmt.Sprint(c.scope, probe), probe.tenant, probe.model, 201, "<nil>")
			}
		}
		status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"agent_id": "a"})
		if (status == 503) != c.execution {
			t.Errorf("%s: an execution is answered %d %v", c.scope, status, out)
		}
		status, out, _ = r.do("POST", "/v1/reservations/running/extend", w.keys["acme"], nil)
		if fmt.Sprint(status, out["stop"]) != fmt.Sprint(200, c.running) {
			t.Errorf("%s: extend is answered %d %v", c.scope, status, out)
		}
		if c.running && (out["reason"] != "killed" || !strings.Contains(fmt.Sprint(out["detail"]), "drill 7")) {
			t.Errorf("%s: %v", c.scope, out)
		}
		version++
		w.kill(admit.Kill{Scope: c.scope, Version: version})
		r.becomes("let go", "acme", "flat", 201, "<nil>")
		r.becomes("let go", "acme", "gpt-4o", 201, "<nil>")
	}
	w.kill(admit.Kill{Scope: admit.KillAll, On: true, Version: version + 1})
	r.becomes("all", "acme", "flat", 503, "killed")
	// An unknown price and a conflict may not hide the kill either; the books go on.
	r.becomes("unknown model", "acme", "nobody-knows", 503, "killed")
	status, out = r.settle("acme", "running", object{"meters": object{"output_tokens": 5}})
	w.want("settle under a kill", status, out, 200, "cost_usd", "0.05")
}

// Goal: a kill outlives restarts, the mirror, and Kafka, and reaches a replica that has lost Kafka, within a second.
func TestKillSurvives(t *testing.T) {
	kafka, cluster := testkit.KafkaCluster(t)
	w := newWorldOn(t, kafka, one(contract()))
	r := w.start()
	r.becomes("before", "acme", "flat", 201, "<nil>")
	version := int64(0)
	w.within("a kill", time.Second, func(int) time.Duration {
		version += 2
		w.kill(admit.Kill{Scope: admit.KillModel("flat"), Version: version - 1})
		r.becomes("not killed", "acme", "flat", 201, "<nil>")
		w.kill(admit.Kill{Scope: admit.KillModel("flat"), On: true, Version: version})
		return r.becomes("killed", "acme", "flat", 503, "killed")
	})
	mirror := func(what string) {
		t.Helper()
		w.eventually(what, func() error {
			if n := w.redisCommand("HLEN w:kill"); n != ":1" {
				return fmt.Errorf("w:kill has %s fields", n)
			}
			return nil
		})
	}
	mirror("mirrored")
	w.redisCommand("DEL w:kill")
	mirror("mirrored again")
	r.stop()
	r = w.start()
	r.becomes("after a restart", "acme", "flat", 503, "killed")

	cluster.Close() // Kafka is gone for good; what another replica still heard of stands in the mirror
	counters, err := budgetstore.Open(t.Context(), w.redisURL(), budgetstore.Options{})
	w.must(err)
	defer counters.Close()
	w.must(counters.MirrorKills(t.Context(), []admit.Kill{{Scope: admit.KillModel("flat"), Version: version + 1}}))
	version = 0
	w.within("a kill without Kafka", time.Second, func(int) time.Duration {
		version += 2
		w.must(counters.MirrorKills(t.Context(), []admit.Kill{{Scope: admit.KillTenant("acme"), Version: version - 1}}))
		r.becomes("not killed", "acme", "gpt-4o", 201, "<nil>")
		w.must(counters.MirrorKills(t.Context(), []admit.Kill{{Scope: admit.KillTenant("acme"), On: true, Version: version}}))
		return r.becomes("a model that was not killed", "acme", "gpt-4o", 503, "killed")
	})
	w.must(counters.MirrorKills(t.Context(), []admit.Kill{{Scope: admit.KillTenant("acme"), Version: version + 1}}))
	r.becomes("let go without Kafka", "acme", "flat", 201, "<nil>")

	// A replica that starts now cannot know its tenants: it is not ready, and asks to come again; but not under a kill.
	cold := w.startUnready()
	status, out, header := cold.do("POST", "/v1/reservations", w.keys["acme"], object{})
	if status != 503 || out["code"] != "budget_store_unavailable" || header.Get("Retry-After") == "" {
		t.Errorf("a cold start without Kafka: %d %v", status, out)
	}
	w.must(counters.MirrorKills(t.Context(), []admit.Kill{{Scope: admit.KillAll, On: true, Version: 1}}))
	cold.becomes("a cold start obeys the mirror", "acme", "flat", 503, "killed")
	if status, out, _ := cold.do("GET", "/readyz", "", nil); status != 503 {
		t.Errorf("ready without Kafka: %v", out)
	}
}

// Goal: a revocation and an exhausted budget, which may be retried or not, never hide a kill, and Redis
// away does not either.
func TestKillComesFirst(t *testing.T) {
	k := contract()
	k.Limits.Concurrency, k.Ceilings.Minute = 1, dollar/100
	w := newWorld(t, one(k))
	r := w.start()
	status, out := r.reserve("acme", "r1", 1)
	w.want("fills the budget", status, out, 201)
	status, out = r.reserve("acme", "r2", 1)
	if status != 429 {
		t.Fatalf("%d %v", status, out)
	}
	w.kill(admit.Kill{Scope: admit.KillTenant("acme"), On: true, Version: 1})
	r.becomes("over every limit", "acme", "flat", 503, "killed")
	status, out = r.reserve("acme", "r1", 1)
	w.want("a replay", status, out, 503, "code", "killed")
	w.must(w.redis.Kill())
	status, out = r.reserve("acme", "r3", 1)
	w.want("Redis is away", status, out, 503, "code", "killed")
	status, out, _ = r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], nil)
	w.want("a heartbeat while Redis is away", status, out, 200, "stop", "true", "reason", "killed")
}
