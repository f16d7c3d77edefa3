//go:build integration

package admission

import (
	"fmt"
	"testing"
)

// Goal: a settle from memory, of a hold that another replica has grown, says in the end what it really held, although Redis was
// away when it was settled. Method: the replica that settles is cut off from Redis; the other one reads the journal.
func TestGrownElsewhereAndRedisAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	at := newName(w, w.redis.Address)
	here, there := w.start(byName(at)), w.start()
	status, out := here.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	status, out, _ = there.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], object{"output_tokens_so_far": 50})
	w.want("grow", status, out, 200, "stop", "false")
	at.lead("redis://127.0.0.1:1/0", true)
	status, first := here.settle("acme", "r1", object{"meters": object{"output_tokens": 70}})
	w.want("settled from memory", status, first, 200, "reserved_usd", "0.3", "overage_usd", "0.4")
	w.eventually("the row says what it held", func() error {
		status, out, _ := there.do("GET", "/v1/reservations/r1", w.keys["acme"], nil)
		if status != 200 || out["reserved_usd"] != "0.5" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, again := there.settle("acme", "r1", object{"meters": object{"output_tokens": 70}})
	w.want("the same again", status, again, 200, "reserved_usd", "0.5", "overage_usd", "0.2", "cost_usd", "0.7", "event_id", fmt.Sprint(first["event_id"]))
	w.exact(there, "acme", "0.7", "0", "0")
}
