//go:build integration

package admission

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// lost empties Redis and waits until that is seen.
func (w *world) lost() {
	w.t.Helper()
	w.redisCommand("FLUSHALL")
	w.eventually("recovering", func() error {
		if row := w.epochNow(); !row.Recovering {
			return errors.New("not yet")
		}
		return nil
	})
}

// Goal: an execution that was closed comes back with what it spent and its limits, and closed; to start it again resumes it.
func TestClosedExecutionRecovers(t *testing.T) {
	t.Parallel()
	w, r := newLossWorld(t)
	start := func() any {
		status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "done", "agent_id": "lead", "max_cost_usd": "0.5"})
		w.want("start", status, out, 201)
		return out["token"]
	}
	status, out := r.reserve("acme", "r1", 45, object{"execution_token": start()})
	w.want("reserve", status, out, 201)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 45}})
	w.want("settle", status, out, 200)
	status, out, _ = r.do("POST", "/v1/executions/done/close", w.keys["acme"], object{})
	w.want("close", status, out, 200)
	w.lost()
	w.recovers(r, "acme", "after")
	w.exact(r, "acme", "0.45", "0", "0")
	x, err := r.svc.counters.Execution(t.Context(), budgetstore.Tenant{ID: "acme", Epoch: w.epochNow().Epoch}, "done")
	w.must(err)
	if !x.Known || !x.Closed || x.Own != 45*dollar/100 || x.Limits.MaxCost != dollar/2 {
		t.Errorf("the execution that was closed: %+v", x)
	}
	status, out = r.reserve("acme", "r2", 6, object{"execution_token": start()})
	w.want("it had 5 cents left", status, out, 403, "code", "execution_budget_exceeded")
}

// Goal: holds whose owners were silent until the recovery had ended are charged when they settle with their receipts, in
// Redis within seconds, beside new ones. Nothing is held of them between.
func TestSettledAfterTheRecovery(t *testing.T) {
	t.Parallel()
	const holds = 15
	w := newWorld(t, map[string]tenant.Contract{"acme": contract()})
	w.pipeline()
	r := w.start(briefly)
	receipts := map[string]any{}
	for n := range holds {
		id := fmt.Sprint("old", n)
		status, out := r.reserve("acme", id, 30, object{"lease_seconds": 2})
		w.want(id, status, out, 201)
		receipts[id] = out["receipt"]
	}
	w.lost()
	w.recovers(r, "acme", "after")
	w.exact(r, "acme", "0", "0", "0")
	for n := range holds {
		id := fmt.Sprint("new", n)
		status, out := r.reserve("acme", id, 20)
		w.want(id, status, out, 201)
		status, out = r.settle("acme", id, object{"meters": object{"output_tokens": 20}})
		w.want(id, status, out, 200)
		id = fmt.Sprint("old", n)
		status, out = r.settle("acme", id, object{"meters": object{"output_tokens": 30}, "receipt": receipts[id]})
		w.want(id, status, out, 200)
	}
	since := time.Now()
	w.exact(r, "acme", "7.5", "0", "0")
	if took := time.Since(since); took > 8*time.Second {
		t.Errorf("Redis had what was settled by receipt only after %s", took)
	} else {
		t.Logf("exact after %s", took)
	}
}
