//go:build integration

package admission

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// roomy reports need no contract of their own.
func (r *report) roomy() { r.under(func(*tenant.Contract) {}) }

// hold reserves cents and expects a yes.
func (r *report) hold(id string, cents int, more ...object) object {
	r.t.Helper()
	status, out := r.ask(0, id, cents, more...)
	r.is("reserve "+id, status, out, 201)
	return out
}

// leaseEnds lets a minute pass and the reaper come.
func (r *report) leaseEnds(after time.Duration) {
	r.t.Helper()
	r.later(after)
	r.must(r.svc.reapTenant(context.Background(), budgetstore.Tenant{ID: r.who, Epoch: 4711}))
}

// closed books everything that was committed so far, and gives the sum of the books and own in Redis, in cents.
func (r *report) closed() (entries []ledger.Entry, booked, own int64) {
	r.t.Helper()
	b := newBooks(r.desk, r.who, 0)
	for len(b.relay(100)) > 0 {
	}
	r.must(b.read(b.newReader(0), b.records(0, len(b.entries))))
	b.publish()
	for _, e := range b.entries {
		booked += int64(e.Own + e.External)
	}
	c, err := r.svc.counters.Budget(context.Background(), budgetstore.Tenant{ID: r.who, Epoch: 4711}, admit.CalendarAt(r.clock.now(), time.UTC), admit.Limits{})
	r.must(err)
	return b.entries, booked / cent, int64(c.Month.Own) / cent
}

// missing lets Redis miss what comes after Postgres' decision.
func (r *report) missing(call func() (int, object)) (int, object) {
	r.t.Helper()
	r.beforeScript(func() { r.redisWire.set(severed) })
	defer r.heal()
	return call()
}

// Holds that leak or settle wrongly.
func TestFieldReportsHolds(t *testing.T) {
	reports(t, 1, map[string]func(*report){
		"19 the counter and the books after time-outs": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Minute = 100 * dollar })
			for i := range 5 { // $50.00 held; two settles whose answers or scripts are lost, one that arrives, one that is never sent
				r.hold(fmt.Sprint("r", i), 1000)
			}
			settle := func(id string) (int, object) {
				return r.end("settle", id, object{"meters": object{"output_tokens": 350}})
			}
			r.missing(func() (int, object) { return settle("r0") })
			r.pgWire.set(noReceipt)
			settle("r1")
			r.heal()
			settle("r1")
			settle("r2")
			r.leaseEnds(121 * time.Second)
			entries, booked, own := r.closed()
			if booked != 3*350+2*1000 || own != booked || len(entries) != 5 {
				r.t.Errorf("%d in the books, %d in Redis, %d entries", booked, own, len(entries))
			}
		},
		"20 the settle step fails once": func(r *report) {
			r.roomy()
			r.hold("r", 100)
			settle := func() (int, object) { return r.end("settle", "r", object{"meters": object{"output_tokens": 40}}) }
			status, out := r.missing(settle)
			r.is("committed", status, out, 200, "cost_usd", "0.4")
			r.figures("1", "1") // never reserved and actual both
			status, out = settle()
			r.is("again", status, out, 200, "cost_usd", "0.4")
			r.figures("0.4", "0")
		},
		"22 a success with an unknown price": func(r *report) {
			r.roomy()
			r.hold("r", 100)
			r.hold("late", 100)
			body := object{"meters": object{"output_tokens": 40}, "model": "nope", "status": "SUCCESS"}
			status, out := r.end("settle", "r", body)
			r.is("settle", status, out, 200, "cost_usd", "<nil>")
			r.figures("2", "1")
			r.leaseEnds(121 * time.Second)
			status, out = r.end("settle", "late", body)
			r.is("late", status, out, 200, "cost_usd", "<nil>", "late", "true")
			entries, booked, _ := r.closed()
			if booked != 200 || !entries[0].Has(ledger.FlagUnpriced) {
				r.t.Errorf("%d cents booked, want what was held: %+v", booked, entries)
			}
			r.figures("2", "0")
		},
		"23 a panic after the charge": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Day = 4 * dollar; k.Limits.Concurrency = 1 })
			r.hold("theirs", 102) // the caller died: $1.02 of $4.00
			status, out := r.ask(0, "next", 1)
			r.is("while it is held", status, out, 429, "limit", "concurrency")
			r.leaseEnds(121 * time.Second)
			r.figures("1.02", "0")
			r.hold("ours", 102)
			r.beforeScript(func() { panic("in the middle of a handler") })
			status, out = r.end("settle", "ours", object{"meters": object{"output_tokens": 2}})
			r.is("our own panic", status, out, 500, "code", "internal_error")
			status, out = r.end("settle", "ours", object{"meters": object{"output_tokens": 2}})
			r.is("again", status, out, 200, "cost_usd", "0.02")
			r.figures("1.04", "0")
		},
		"25 an error at byte 0, and a window that turns under a hold": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency = 2 })
			r.hold("failed", 100)
			status, out := r.end("release", "failed", nil)
			r.is("release", status, out, 200, "state", "released")
			r.figures("0", "0")
			now := r.clock.now()
			r.leaseEnds(now.Truncate(24 * time.Hour).Add(24*time.Hour - 30*time.Second).Sub(now))
			r.hold("live", 100)
			r.leaseEnds(31 * time.Second) // midnight
			r.figures("0", "0")
			if used := fmt.Sprint(r.budget()["limits"].(object)["concurrency"].(object)["used"]); used != "1" {
				r.t.Errorf("%s calls run after midnight, want the hold to survive", used)
			}
			r.hold("another", 1)
			status, out = r.ask(0, "third", 1)
			r.is("the hold still counts", status, out, 429, "limit", "concurrency")
			status, out = r.end("settle", "live", object{"meters": object{"output_tokens": 60}})
			r.is("settle", status, out, 200, "cost_usd", "0.6")
			r.figures("0.01", "0.01")
		},
		"26 released twice": func(r *report) {
			r.roomy()
			r.hold("other", 50)
			r.hold("r", 100)
			for range 3 {
				status, out := r.end("release", "r", nil)
				r.is("release", status, out, 200, "state", "released")
				r.figures("0.5", "0.5")
			}
		},
		"28 the same key while the balance changed": func(r *report) {
			r.roomy()
			first := r.hold("r", 100)
			r.hold("between", 200)
			r.later(3 * time.Second)
			status, out := r.ask(0, "r", 100)
			if r.is("again", status, out, 200); fmt.Sprint(out) != fmt.Sprint(first) {
				r.t.Errorf("%v\n%v", first, out)
			}
			r.figures("3", "3")
		},
		"29 an id whose hold was released is no free pass": func(r *report) {
			r.roomy()
			r.hold("op", 100)
			r.end("release", "op", nil)
			status, out := r.ask(0, "op", 100)
			r.is("the same id again", status, out, 409, "code", "reservation_conflict")
			r.leaseEnds(125 * time.Second)
			r.hold("op", 100) // Redis remembers it no longer: it is another reservation
			r.figures("1", "1")
			status, out = r.end("settle", "op", object{"meters": object{"output_tokens": 40}})
			r.is("its settle", status, out, 200, "cost_usd", "0.4")
			if _, booked, own := r.closed(); booked != 40 || own != 40 {
				r.t.Errorf("%d booked, %d own", booked, own)
			}
		},
		"31 an actual above the hold": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Minute = dollar })
			r.hold("r", 100)
			status, out := r.end("settle", "r", object{"meters": object{"output_tokens": 120}})
			r.is("settle", status, out, 200, "cost_usd", "1.2", "overage_usd", "0.2")
			if left := fmt.Sprint(r.budget()["remaining"].(object)["minute_usd"]); left != "-0.2" {
				r.t.Errorf("left %s", left)
			}
			status, out = r.ask(0, "next", 1)
			r.is("next", status, out, 429, "window", "minute", "used", "1.2")
			if _, booked, own := r.closed(); booked != 120 || own != 120 {
				r.t.Errorf("%d booked, %d own", booked, own)
			}
		},
		"32 an expired hold is not reserved any more": func(r *report) {
			r.roomy()
			r.hold("r", 100, object{"lease_seconds": 1})
			r.leaseEnds(2 * time.Second)
			r.figures("1", "0")
			status, out := r.desk.call(r.who, "GET", "/v1/reservations/r", nil)
			r.is("state", status, out, 200, "state", "expired")
		},
		"34 as many time-outs as calls are allowed": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency = 3 })
			for i := range 3 {
				r.hold(fmt.Sprint("r", i), 1, object{"lease_seconds": 5})
			}
			status, out := r.ask(0, "r3", 1)
			r.is("full", status, out, 429, "limit", "concurrency")
			r.later(6 * time.Second) // not even the reaper is needed
			r.hold("r4", 1)
		},
		"35 a refusal for concurrency costs no request": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency, k.Limits.RequestsPerMinute = 1, 10 })
			r.hold("r", 1)
			for i := range 20 {
				status, out := r.ask(0, fmt.Sprint("n", i), 1)
				r.is("full", status, out, 429, "limit", "concurrency")
			}
			if used := fmt.Sprint(r.budget()["limits"].(object)["requests_per_minute"].(object)["used"]); used != "1" {
				r.t.Errorf("%s requests used", used)
			}
		},
		"37 steady traffic while releases are lost": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency = 3 })
			for i := range 30 { // one call every two seconds for a minute; every release misses Redis
				id := fmt.Sprint("r", i)
				if status, out := r.ask(0, id, 1, object{"lease_seconds": 4}); status != 201 {
					r.t.Fatalf("call %d: %v", i, out)
				}
				r.missing(func() (int, object) { return r.end("release", id, nil) })
				r.later(2 * time.Second)
			}
			r.leaseEnds(5 * time.Second)
			r.figures("0", "0")
			if used := fmt.Sprint(r.budget()["limits"].(object)["concurrency"].(object)["used"]); used != "0" {
				r.t.Errorf("%s calls run", used)
			}
		},
	})
}
