//go:build integration

package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Layouts of a build, of one before and of one after it.
const (
	layoutNow    = budgetstore.Layout + 7
	layoutBefore = layoutNow - 1
	layoutAfter  = layoutNow + 1
)

func laidOut(as int) func(*Config) {
	return func(c *Config) { c.layout = as }
}

// garble makes of a tenant's counters what this build misreads: all but the epoch stands elsewhere, and some fields are gone.
func (w *world) garble(tenant string) {
	w.t.Helper()
	state := "w:{" + tenant + "}:s"
	script := fmt.Sprintf(`local S = redis.call('HGET','%s','{') redis.call('HSET','%s','{',string.sub(S,1,8)..string.rep('x',300),'{r0','?','{f','?','{c','?') return 1`, state, state)
	if reply := w.redisCommand(fmt.Sprintf("EVAL %q 0", script)); reply != ":1" {
		w.t.Fatal(reply)
	}
}

// refusesForGood fails unless a replica says in each of its ways that it is too old.
func (w *world) refusesForGood(r *replica, id string) {
	w.t.Helper()
	w.eventually("it is outdated", func() error {
		status, out, header := r.do("POST", "/v1/reservations", w.keys["acme"], object{"reservation_id": id, "provider": "openai", "model": "flat",
			"estimate": object{"input_tokens": 0, "max_output_tokens": 1}})
		ready, why, _ := r.do("GET", "/readyz", "", nil)
		if status != 503 || out["code"] != "budget_store_unavailable" || !strings.Contains(fmt.Sprint(out["detail"]), "earlier build") || header.Get("Retry-After") == "" ||
			ready != 503 || !strings.Contains(fmt.Sprint(why), "is to be replaced") || r.metric("weir_recovery_state") != 3 {
			return fmt.Errorf("%d %v %v, ready %d %v", status, out, header, ready, why)
		}
		return nil
	})
}

// Goal: a Redis that another build has laid out, or one from before there were numbers, is noticed by the first replica that
// knows better, and made anew without a human: what was settled, what never asked and what is held are exact.
func TestRecoversFromAnEarlierLayout(t *testing.T) {
	for name, before := range map[string]int{"one before": layoutBefore, "without a number": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "other": contract()})
			w.pipeline()
			first := w.start(laidOut(layoutBefore))
			status, out := first.reserve("acme", "r1", 30)
			w.want("reserve", status, out, 201)
			status, out = first.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
			w.want("settle", status, out, 200)
			status, out, _ = first.do("POST", "/v1/events", w.keys["acme"], object{"specversion": "1.0", "id": "e1", "source": "agents/7", "type": "weir.usage.v1",
				"data": object{"provider": "openai", "model": "flat", "meters": object{"output_tokens": 10}}}, "Content-Type", "application/cloudevents+json")
			w.want("event", status, out, 204)
			w.exact(first, "acme", "0.2", "0", "0.1")
			status, kept := first.reserve("acme", "kept", 30)
			w.want("reserve", status, kept, 201)
			first.stop()
			w.garble("acme")
			w.setLayout(before)

			second := w.startUnready(laidOut(layoutNow))
			stop := w.keep(second, "kept", kept["receipt"])
			defer stop()
			w.recovers(second, "acme", "after")
			w.exact(second, "acme", "0.5", "0.3", "0.1")
			stop()
			status, out = second.settle("acme", "kept", object{"meters": object{"output_tokens": 11}, "receipt": kept["receipt"]})
			w.want("it is settled", status, out, 200)
			w.exact(second, "acme", "0.31", "0", "0.1")
			if row := w.epochNow(); row.Epoch != second.svc.epochs.Last().Epoch || row.Epoch != row.Lost+1 || row.Layout != layoutNow {
				t.Errorf("%+v", row)
			}
		})
	}
}

// setLayout is what a row says that another build has written.
func (w *world) setLayout(as int) {
	w.t.Helper()
	w.exec("UPDATE redis_epoch SET layout = $1", as)
}

// Goal: where replicas of two layouts run side by side, those of the later one serve, after one recovery, and the others
// admit nothing, take no partition away and raise or lead nothing, also when Redis is lost then. They still settle by receipt.
func TestReplicasOfTwoLayouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	old := w.start(laidOut(layoutNow)) // raises that of the world
	epoch := w.epochNow().Epoch
	status, out := old.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	receipt := out["receipt"]
	later := w.startUnready(laidOut(layoutAfter))
	stop := w.keep(later, "r1", receipt)
	defer stop()
	w.refusesForGood(old, "no1")
	w.recovers(later, "acme", "after1")
	w.exact(later, "acme", "0.3", "0.3", "0")
	oldToo := w.startUnready(laidOut(layoutNow)) // as a roll-back would
	w.refusesForGood(oldToo, "no2")
	if row := w.epochNow(); row.Epoch != epoch+1 || row.Layout != layoutAfter || row.Recovering {
		t.Errorf("%+v, after %d", row, epoch)
	}

	stop()
	status, out = old.settle("acme", "r1", object{"meters": object{"output_tokens": 20}, "receipt": receipt})
	w.want("a settle by receipt", status, out, 200)
	status, out, _ = old.do("POST", "/v1/reservations/unknown/settle", w.keys["acme"], object{"meters": object{"output_tokens": 20}})
	w.want("one without", status, out, 503, "code", "budget_store_unavailable")
	w.exact(later, "acme", "0.2", "0", "0") // the partitions are with who can apply it

	w.redisCommand("FLUSHALL")
	w.eventually("the loss is seen", func() error {
		if row := w.epochNow(); row.Epoch != epoch+2 {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	w.recovers(later, "acme", "after2")
	w.exact(later, "acme", "0.2", "0", "0")
	w.refusesForGood(old, "no3")
	w.refusesForGood(oldToo, "no4")
	if row := w.epochNow(); row.Epoch != epoch+2 || row.Layout != layoutAfter || row.Recovering {
		t.Errorf("%+v, after %d", row, epoch)
	}
}

// Goal: while the counters are being made in an earlier layout, a replica of a later one takes that over too.
func TestLaterLayoutInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	w.pipeline()
	old := w.start(laidOut(layoutNow))
	epoch := w.epochNow().Epoch
	status, out := old.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	status, out = old.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.want("settle", status, out, 200)
	w.redisCommand("FLUSHALL")
	w.eventually("the recovery begins", func() error {
		if row := w.epochNow(); row.Epoch != epoch+1 {
			return fmt.Errorf("%+v", row)
		}
		return nil
	})
	later := w.startUnready(laidOut(layoutAfter))
	w.refusesForGood(old, "no")
	w.recovers(later, "acme", "after")
	w.exact(later, "acme", "0.2", "0", "0")
	if row := w.epochNow(); row.Layout != layoutAfter || row.Epoch > epoch+2 {
		t.Errorf("%+v, after %d", row, epoch)
	}
}
