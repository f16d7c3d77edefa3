//go:build integration

package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/pgstore"
)

// two are replicas at one desk: here grants holds and remembers them, there knows nothing of them.
type two struct {
	*desk
	here, there process
}

func newTwo(t *testing.T, k tenant.Contract) *two {
	t.Helper()
	d := newDesk(t, one(k))
	w := &two{desk: d, here: d.process, there: d.another()}
	t.Cleanup(w.there.stop)
	return w
}

// hold reserves cents here.
func (w *two) hold(id string, cents int, more ...object) object {
	w.t.Helper()
	body := object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": cents}}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	status, out := w.here.call(w.world, "acme", "POST", "/v1/reservations", body)
	w.want("reserve "+id, status, out, 201)
	return out
}

func (w *two) send(at process, what, id string, body object) (int, object) {
	w.t.Helper()
	return at.call(w.world, "acme", "POST", "/v1/reservations/"+id+"/"+what, body)
}

// found is how many settles here found their reservation in a place, or had another trait that is counted.
func (w *two) found(where string) float64 {
	return testutil.ToFloat64(w.here.svc.metrics.lookUps.WithLabelValues(where))
}

// figures checks the day's own and held dollars in Redis.
func (w *two) figures(what, own, held string) {
	w.t.Helper()
	_, b := w.here.call(w.world, "acme", "GET", "/v1/budget", nil)
	if o, h := figureOf(b, "day", "own_usd"), figureOf(b, "day", "held_usd"); o != own || h != held {
		w.t.Errorf("%s: own %s held %s, want %s and %s", what, o, h, own, held)
	}
}

// row is the reservation's record.
func (w *two) row(id string) pgstore.Row {
	w.t.Helper()
	row, ok, err := w.there.svc.rows.Get(w.t.Context(), "acme", id)
	w.must(err)
	if !ok {
		w.t.Fatalf("%s has no row", id)
	}
	return row
}

func output(n int) object { return object{"meters": object{"output_tokens": n}} }

// Goal: a settle where the hold was granted asks Redis nothing, and says and counts what one elsewhere does.
func TestSettleFromMemory(t *testing.T) {
	w := newTwo(t, withScopes(t, contract(), "cost_center ops 0 1000 0"))
	made := w.hold("r1", 30)
	w.redisWire.set(severed) // until the script is due
	w.beforeScript(func() { w.redisWire.set(through) })
	status, out := w.send(w.here, "settle", "r1", output(20))
	w.heal()
	w.want("settle", status, out, 200, "cost_usd", "0.2", "reserved_usd", "0.3", "overage_usd", "0", "event_id", w.row("r1").EventID)
	w.figures("settled", "0.2", "0")
	if row := w.row("r1"); row.OwnMode != pgstore.OwnDirect || row.HeldNanos != 30*dollar/100 || row.Epoch != 4711 || clock(row.ReservedAt) != made["reserved_at"] {
		t.Errorf("the row: %+v", row)
	}
	status, again := w.send(w.there, "settle", "r1", output(20))
	w.want("the same again, elsewhere", status, again, 200, "event_id", fmt.Sprint(out["event_id"]))

	made = w.hold("r2", 30)
	status, out = w.send(w.here, "settle", "r2", object{"meters": object{"output_tokens": 20}, "receipt": fmt.Sprint(made["receipt"]) + "x"})
	w.want("with a false receipt", status, out, 400, "field", "receipt")
	status, out = w.send(w.here, "settle", "r2", object{"meters": object{"output_tokens": 20}, "receipt": made["receipt"]})
	w.want("with its receipt", status, out, 200)
	w.hold("r3", 30, centre("ops"))
	status, out = w.send(w.here, "settle", "r3", output(20))
	w.want("of a sub-scope", status, out, 200)
	w.figures("all settled", "0.6", "0")
	if m, r := w.found("memory"), w.found("redis"); m != 2 || r != 1 {
		t.Errorf("%v were found in memory and %v in Redis, want 2 and 1", m, r)
	}
}

// Goal: a hold that another replica has grown: the answer, the row and the counters say what it really held, and an amount
// that depends on it is that, not what was remembered.
func TestSettleOfAHoldGrownElsewhere(t *testing.T) {
	w := newTwo(t, contract())
	for _, c := range []struct {
		name      string
		body      object
		cost      any
		overage   string
		corrected float64
		own       money.Nano
	}{
		{"below what it was", output(20), "0.2", "0", 1, 20},
		{"between", output(45), "0.45", "0", 1, 45},
		{"above", output(70), "0.7", "0.2", 1, 70},
		{"a cache hit", object{"cache_hit": "exact"}, "0", "0", 1, 0},
		{"without usage", object{"status": "PARTIAL"}, "0.5", "0", 0, 50},
		{"without a price", object{"model": "nobody-knows", "meters": object{"output_tokens": 4}}, nil, "0", 0, 50},
		{"nothing used", object{"status": "FAILED"}, "0", "0", 0, 0},
	} {
		w.clock.advance(90 * time.Second)
		w.here.compareEpoch()
		w.there.compareEpoch()
		_, b := w.here.call(w.world, "acme", "GET", "/v1/budget", nil)
		before, corrected := centsOf(figureOf(b, "month", "own_usd")), testutil.ToFloat64(w.here.svc.metrics.heldMore)
		id := fmt.Sprintf("r-%d", w.clock.us.Load())
		w.hold(id, 30)
		status, out := w.send(w.there, "extend", id, object{"output_tokens_so_far": 50})
		w.want(c.name+": extend", status, out, 200, "stop", "false")
		status, out = w.send(w.here, "settle", id, c.body)
		w.want(c.name, status, out, 200, "cost_usd", fmt.Sprint(c.cost), "reserved_usd", "0.5", "overage_usd", c.overage)
		row := w.row(id)
		if row.HeldNanos != 50*dollar/100 || row.OwnNanos != c.own*dollar/100 || row.OwnMode != pgstore.OwnDirect {
			t.Errorf("%s: the row says held %d own %d", c.name, row.HeldNanos, row.OwnNanos)
		}
		status, again := w.send(w.there, "settle", id, c.body)
		if fmt.Sprint(again) != fmt.Sprint(out) {
			t.Errorf("%s: again, elsewhere: %d %v, want %v", c.name, status, again, out)
		}
		if n := testutil.ToFloat64(w.here.svc.metrics.heldMore) - corrected; n != c.corrected {
			t.Errorf("%s: corrected %v times, want %v", c.name, n, c.corrected)
		}
		_, b = w.here.call(w.world, "acme", "GET", "/v1/budget", nil)
		if got := centsOf(figureOf(b, "month", "own_usd")) - before; got != int64(c.own) || figureOf(b, "month", "held_usd") != "0" {
			t.Errorf("%s: %d cents more are counted, want %d; held %s", c.name, got, c.own, figureOf(b, "month", "held_usd"))
		}
	}
}

// Goal: an id that was ended elsewhere and is used again is settled as what it is now, not as what is remembered under it (I11).
func TestSettleOfAnIDUsedAgainElsewhere(t *testing.T) {
	w := newTwo(t, contract())
	w.hold("r1", 30)
	status, out := w.send(w.there, "release", "r1", object{})
	w.want("released elsewhere", status, out, 200)
	for n := range 64 { // as many as Redis remembers
		id := fmt.Sprint("other", n)
		w.hold(id, 1)
		status, out = w.send(w.here, "settle", id, output(1))
		w.want(id, status, out, 200)
	}
	status, out = w.there.call(w.world, "acme", "POST", "/v1/reservations", object{"reservation_id": "r1", "provider": "openai", "model": "flat",
		"estimate": object{"max_output_tokens": 50}})
	w.want("used again elsewhere", status, out, 201)
	w.figures("held", "1.14", "0.5")
	status, out = w.send(w.here, "settle", "r1", output(20))
	w.want("settle", status, out, 200, "reserved_usd", "0.5")
	w.figures("settled", "0.84", "0")
}

// Goal (I1, I4, ADR 0017): whoever uses ids again, later than Redis remembers them, is granted no more than the ceiling, and all that
// was granted is booked, settled or not. A worker that numbers its calls from 1 after each restart does that.
func TestIDsUsedAgainAreBooked(t *testing.T) {
	k := contract()
	k.Ceilings = tenant.Ceilings{Minute: dollar, Day: dollar, Month: dollar}
	w := newTwo(t, k)
	granted := 0
	for pass := range 4 {
		for n := range 70 { // more than Redis remembers
			id, at := fmt.Sprint("job-", n), []process{w.here, w.there}[n%2]
			status, out := at.call(w.world, "acme", "POST", "/v1/reservations", object{"reservation_id": id, "provider": "openai", "model": "flat",
				"estimate": object{"max_output_tokens": 1}, "lease_seconds": 1})
			if granted == 100 {
				if status != 429 && status != 409 { // 409: Redis remembers it
					t.Errorf("%s: %d %v above the ceiling", id, status, out)
				}
				continue
			}
			w.want(id, status, out, 201)
			granted++
			if pass == 1 && n == 20 { // its owner dies
				w.clock.advance(2 * time.Second)
				w.here.compareEpoch()
				w.there.compareEpoch()
				w.must(w.there.svc.reapTenant(t.Context(), budgetstore.Tenant{ID: "acme", Epoch: 4711}))
				continue
			}
			with := output(1)
			if n%3 == 0 {
				with["receipt"] = out["receipt"]
			}
			status, out = w.send(w.here, "settle", id, with)
			w.want("settle "+id, status, out, 200, "cost_usd", "0.01")
		}
	}
	w.figures("all", "1", "0")
	if events := len(w.outboxRows()); events != granted {
		t.Errorf("%d events of %d reservations", events, granted)
	}
}

// Goal: an extension where the hold was granted asks Redis once; one of a hold that ended elsewhere is told so.
func TestExtendFromMemory(t *testing.T) {
	w := newTwo(t, contract())
	w.hold("r1", 30, object{"lease_seconds": 60})
	w.redisWire.set(severed)
	w.beforeScript(func() { w.redisWire.set(through) })
	status, out := w.send(w.here, "extend", "r1", object{"lease_seconds": 100, "output_tokens_so_far": 40})
	w.heal()
	w.want("extend", status, out, 200, "stop", "false")
	w.figures("grown", "0.4", "0.4")
	status, out = w.send(w.here, "settle", "r1", output(20))
	w.want("settle", status, out, 200, "reserved_usd", "0.4")
	w.hold("r2", 30)
	status, out = w.send(w.there, "settle", "r2", output(20))
	w.want("settled elsewhere", status, out, 200)
	status, out = w.send(w.here, "extend", "r2", object{})
	w.want("extend what was settled elsewhere", status, out, 409, "state", "settled")
	w.hold("r3", 30, object{"lease_seconds": 1})
	w.clock.advance(2 * time.Second)
	w.here.compareEpoch()
	status, out = w.send(w.here, "extend", "r3", object{})
	w.want("extend what is over", status, out, 409, "state", "expiring")
}

// Goal: with Redis away a remembered hold is settled, and counted once, whoever brings Redis up to it: the journal, or the
// reaper. What depends on the hold is refused as before.
func TestSettleFromMemoryWithoutRedis(t *testing.T) {
	w := newTwo(t, contract())
	for _, id := range []string{"r1", "r2", "r3"} {
		w.hold(id, 30, object{"lease_seconds": 60})
	}
	w.redisWire.set(severed)
	status, out := w.send(w.here, "settle", "r1", output(20))
	w.want("settle", status, out, 200, "cost_usd", "0.2", "reserved_usd", "0.3")
	status, out = w.send(w.here, "settle", "r2", output(25))
	w.want("settle", status, out, 200)
	status, out = w.send(w.here, "settle", "r3", object{"status": "PARTIAL"})
	w.want("at the estimate", status, out, 503, "code", "budget_store_unavailable")
	status, out = w.send(w.there, "settle", "r3", output(20))
	w.want("elsewhere", status, out, 503, "code", "budget_store_unavailable")
	w.heal()
	w.figures("Redis knows nothing yet", "0.9", "0.9")
	b := newBooks(w.desk, "acme", 0)
	b.relay(1)
	reader := b.newReader(0)
	w.must(b.read(reader, b.records(0, 1)))
	w.figures("the journal", "0.8", "0.6")
	w.clock.advance(61 * time.Second)
	w.here.compareEpoch()
	w.there.compareEpoch()
	of, err := w.there.svc.of("acme")
	w.must(err)
	w.must(w.there.svc.reapTenant(context.Background(), of))
	w.figures("the reaper", "0.75", "0") // 0.2 + 0.25, and the one that nobody settled at its 0.3
	for len(b.relay(10)) > 0 {
	}
	w.must(b.read(reader, b.records(1, len(b.entries))))
	w.figures("in the end", "0.75", "0")
}

// Goal: a hold that was deleted by hand in an epoch that stands. Its settle is booked and nothing is added to Redis, in which
// the estimate stays counted: what `weir audit` compares then differs by what was settled.
func TestSettleOfAHoldDeletedByHand(t *testing.T) {
	w := newTwo(t, contract())
	w.hold("r1", 30)
	if got := w.redisCommand("HDEL w:{acme}:s r1 {hr1"); got != ":2" {
		t.Fatal(got)
	}
	for range 2 {
		status, out := w.send(w.here, "settle", "r1", output(20))
		w.want("settle", status, out, 200, "cost_usd", "0.2")
		w.figures("settled", "0.3", "0.3")
	}
	if n := testutil.ToFloat64(w.here.svc.metrics.holdGone); n != 1 {
		t.Errorf("%v holds were gone", n)
	}
	b := newBooks(w.desk, "acme", 0)
	b.relay(10)
	w.must(b.read(b.newReader(0), b.records(0, len(b.entries))))
	w.figures("after the journal", "0.3", "0.3")
	of, err := w.here.svc.of("acme")
	w.must(err)
	c, err := w.here.svc.counters.Budget(t.Context(), of, admit.CalendarAt(w.clock.now(), time.UTC), admit.Limits{})
	w.must(err)
	if own := b.entries[0].Own; len(b.entries) != 1 || own != 20*dollar/100 || c.Day.Own-c.Day.Held == own {
		t.Errorf("the books have %d own, Redis %d without holds: the audit sees nothing", own, c.Day.Own-c.Day.Held)
	}
}

// Goal: settles from memory around a loss of Redis are counted once: those that commit before the epoch is raised are in what
// the counters are made from, and those after it are the journal's. Method: settles without receipts, repeated until they are
// taken, while Redis is emptied and recovered; in the end Redis and the books agree, to the cent.
func TestSettlesFromMemoryAroundALoss(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 60
	w, r := newLossWorld(t)
	for n := range callers * each {
		status, out := r.reserve("acme", fmt.Sprint("r", n), 3, object{"lease_seconds": 60})
		w.want("reserve", status, out, 201)
	}
	var settling sync.WaitGroup
	begun := make(chan struct{}, callers)
	for c := range callers {
		settling.Go(func() {
			for n := range each {
				id := fmt.Sprint("r", c*each+n)
				for status := 0; status != 200 && t.Context().Err() == nil; {
					var out object
					if status, out = r.settle("acme", id, output(2)); status != 200 && status != 503 {
						t.Errorf("%s: %d %v", id, status, out)
						return
					}
					if status == 503 {
						pause(t.Context(), 50*time.Millisecond)
					}
				}
				if n == each/4 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	w.redisCommand("FLUSHALL")
	settled := make(chan struct{})
	go func() { settling.Wait(); close(settled) }()
	w.eventually("all are settled", func() error {
		w.leasesEnd()
		select {
		case <-settled:
			return nil
		default:
			return errors.New("not yet")
		}
	})
	w.recovers(r, "acme", "after")
	if row := w.epochNow(); row.Epoch != 4712 {
		t.Errorf("epoch %d", row.Epoch)
	}
	w.eventually("each is counted once", func() error {
		b := r.budget("acme")
		own, external := centsOf(figureOf(b, "day", "own_usd")), centsOf(figureOf(b, "day", "external_usd"))
		booksOwn, booksExternal := w.books("acme")
		if own+external != callers*each*2 || booksOwn+booksExternal != (own+external)*10_000_000 || own*10_000_000 != booksOwn {
			return fmt.Errorf("own %d and external %d cents, the books %d and %d", own, external, booksOwn, booksExternal)
		}
		return nil
	})
}
