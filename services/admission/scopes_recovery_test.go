//go:build integration

package admission

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/pkg/domain/window"
)

// Goal: after a loss of Redis a sub-scope has exactly what it had: settled before, settled by its receipt meanwhile, what
// never asked, and what a holder kept by its receipt; its ceiling refuses as before.
func TestScopesRecover(t *testing.T) {
	w := newWorld(t, one(withScopes(t, contract(), "cost_center research 0 100 0", "agent * 0 0 500")))
	w.pipeline()
	r := w.start()
	receipts := map[string]any{}
	reserve := func(id string, cents int) {
		status, out := r.reserve("acme", id, cents, centre("research"), agent("a"))
		w.want(id, status, out, 201)
		receipts[id] = out["receipt"]
	}
	reserve("before", 30)
	status, out := r.settle("acme", "before", object{"meters": object{"output_tokens": 20}})
	w.want("settle", status, out, 200)
	status, out, _ = r.do("POST", "/v1/events", w.keys["acme"], object{"specversion": "1.0", "id": "e1", "source": "agents/7", "type": "weir.usage.v1",
		"data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 10}, "agent_id": "a", "cost_center": "research"}},
		"Content-Type", "application/cloudevents+json")
	w.want("event", status, out, 204)
	is := func(what, own, held, external string) {
		t.Helper()
		w.eventually(what, func() error {
			status, b, _ := r.do("GET", "/v1/budget?agent_id=a", w.keys["acme"], nil)
			for _, line := range [][3]string{{"cost_center", "research", "day"}, {"agent", "a", "month"}} {
				got := [3]string{scopeOf(b, line[0], line[1], line[2], "own_usd"), scopeOf(b, line[0], line[1], line[2], "held_usd"), scopeOf(b, line[0], line[1], line[2], "external_usd")}
				if got != [3]string{own, held, external} {
					return fmt.Errorf("%d %s: own, held, external %v, want %s, %s, %s", status, line[0], got, own, held, external)
				}
			}
			return nil
		})
	}
	is("before", "0.2", "0", "0.1")
	reserve("kept", 30)
	reserve("settled", 25)
	stop := w.keep(r, "kept", receipts["kept"])
	defer stop()
	w.redisCommand("FLUSHALL")
	w.eventually("settled by its receipt", func() error {
		status, out = r.settle("acme", "settled", object{"meters": object{"output_tokens": 24}, "receipt": receipts["settled"]})
		if status != 200 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	w.recovers(r, "acme", "after")
	is("after", "0.74", "0.3", "0.1")
	status, out = r.reserve("acme", "more", 17, centre("research"), agent("b"))
	w.want("the ceiling holds", status, out, 429, "window", "day", "used", "0.84")
	if scopeText(out) != "cost_center research" {
		t.Errorf("%v", out)
	}
	stop()
	status, out = r.settle("acme", "kept", object{"meters": object{"output_tokens": 11}, "receipt": receipts["kept"]})
	w.want("it is settled", status, out, 200)
	is("the end", "0.55", "0", "0.1")
	w.eventually("own is the aggregator's own", func() error { return w.ownAgrees(r, window.Scope{Kind: window.CostCenter, ID: "research"}) })
}
