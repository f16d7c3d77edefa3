//go:build integration

package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/usageevent"
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

// recoveringState begins the states of the table whose counters are being made anew.
const recoveringState = "recovering, "

// TestReservationLifeWhileRecovering walks the rows of "What admission answers" that are about a recovery. Its columns
// about Kafka and leases are of what is done after it.
func TestReservationLifeWhileRecovering(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	r := w.start() // leases run for minutes: nothing here waits for the end of the recovery
	messages := map[string]struct {
		path string
		body object
	}{"settle": {"settle", object{"meters": object{"output_tokens": 7}}}, "settle without usage": {"settle", object{"status": "PARTIAL"}},
		"release": {"release", object{}}, "extend": {"extend", object{}}}
	receipts := map[string]any{}
	rows := lifeTable(t)
	each := func(do func(id, message, want string, receipt bool)) {
		for _, row := range rows[1:] {
			for i, want := range row[1:] {
				if message := rows[0][i+1]; strings.HasPrefix(row[0], recoveringState) && messages[message].path != "" {
					do(strings.ReplaceAll(row[0]+message, " ", "-"), message, want, strings.HasSuffix(row[0], "with a receipt"))
				}
			}
		}
	}
	each(func(id, _, _ string, _ bool) {
		id = strings.ReplaceAll(id, ",", "")
		status, out := r.reserve("acme", id, 1)
		w.want(id, status, out, 201)
		receipts[id] = out["receipt"]
	})
	w.lost()
	w.eventually("receipts are taken", func() error {
		if row, ok := r.svc.epochs.Recovering(time.Now()); !ok {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	cells := 0
	each(func(id, message, want string, receipt bool) {
		cells++
		id = strings.ReplaceAll(id, ",", "")
		m := messages[message]
		if receipt {
			m.body["receipt"] = receipts[id]
		} else {
			delete(m.body, "receipt")
		}
		events := len(w.outboxRows())
		status, out, _ := r.do("POST", "/v1/reservations/"+id+"/"+m.path, w.keys["acme"], m.body)
		got := fmt.Sprint(status)
		if out["state"] != nil {
			got += fmt.Sprint(" ", out["state"])
		}
		for _, row := range w.outboxRows()[events:] {
			if ev, err := usageevent.Decode(row.payload, nil); err == nil && ev.Data.ReservationID == id {
				got += map[string]string{usageevent.OutcomeSettled: " (S)", usageevent.OutcomeEstimated: " (E)"}[ev.Data.Reservation.Outcome]
			}
		}
		if got != want {
			t.Errorf("%s + %s: admission says %q, the document %q", id, message, got, want)
		}
	})
	if cells != 8 {
		t.Errorf("%d cells", cells)
	}
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

// Goal: holds whose owners were silent until the recovery had ended, and whose replica died too, are charged when they settle
// with their receipts, in Redis too, beside new ones, and are calls of their execution. Nothing is held of them between.
func TestSettledAfterTheRecovery(t *testing.T) {
	t.Parallel()
	const holds = 15
	w := newWorld(t, map[string]tenant.Contract{"acme": contract()})
	w.pipeline()
	r := w.start()
	status, started, _ := r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": "x1", "agent_id": "lead"})
	w.want("start", status, started, 201)
	token := object{"execution_token": started["token"]}
	receipts := map[string]any{}
	for n := range holds {
		id := fmt.Sprint("old", n)
		status, out := r.reserve("acme", id, 30, token)
		w.want(id, status, out, 201)
		receipts[id] = out["receipt"]
	}
	r.stop()
	r = w.start()
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
	w.exact(r, "acme", "7.5", "0", "0")
	status, out := r.reserve("acme", "last", 10, token)
	w.want("last", status, out, 201)
	if execution, _ := out["execution"].(map[string]any); fmt.Sprint(execution["calls"]) != fmt.Sprint(holds+1) {
		t.Errorf("%v, want %d calls", out, holds+1)
	}
}
