//go:build integration

package admission

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// stroll takes the real admission and the model through the same steps.
type stroll struct {
	d      *desk
	t      *rapid.T
	other  process // a second replica beside the desk's
	tenant string
	g      *gate
	b      *books
	reader *journalReader
	read   int         // entries of the journal that the reader was given
	past   []*gateHold // every reservation ever admitted
	// receipts are what their holders were given: none, where the answer was lost.
	receipts map[*gateHold]string
	count    map[string]int
	events   int
	truths   map[string]*truth // by reservation id, as the attributor hears of them
}

func strollLimits() gateLimits {
	return gateLimits{requests: 14, in: 500, out: 700, concurrency: 6, minute: 3 * 100 * cent, day: 5 * 100 * cent, dayCap: 550 * cent, month: 40 * 100 * cent,
		rootCost: 3 * 100 * cent, rootCalls: 9, remembered: 120, idsRemembered: 64, stepTooLong: 2 * second}
}

// strollContract is the same for the service.
func strollContract() tenant.Contract {
	k, l := contract(), strollLimits()
	k.Limits = tenant.Limits{RequestsPerMinute: l.requests, InputTokensPerMinute: l.in, OutputTokensPerMinute: l.out, Concurrency: l.concurrency}
	k.Ceilings = tenant.Ceilings{Minute: money.Nano(l.minute), Day: money.Nano(l.day), Month: money.Nano(l.month)}
	k.SoftDay, k.Actions.SavingModels = true, map[string]string{"openai/flat": "half"}
	k.Execution = tenant.Execution{MaxCost: money.Nano(l.rootCost), MaxCalls: l.rootCalls}
	return k
}

// Goal: whatever the order of messages, repeats, lost answers, crashes between Postgres and Redis, new processes, clock
// steps, late and external usage: every answer and every counter is the model's, and in the end Redis and the books agree
// to the nano-dollar.
func TestAdmissionIsTheModel(t *testing.T) {
	d := newDesk(t, map[string]tenant.Contract{"acme": strollContract()})
	d.publishHalf()
	d.eventually("the cheaper model's price", func() error {
		_, _, err := d.svc.catalogs.prices.Book().At("openai", "half", d.clock.now())
		return err
	})
	for name, value := range map[string]string{"rapid.steps": "60", "rapid.checks": "65", "rapid.seed": fmt.Sprint(time.Now().UnixNano())} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue { // what was asked for on the command line stands
			d.must(flag.Set(name, value))
			t.Cleanup(func() { _ = flag.Set(name, f.DefValue) })
		}
	}
	t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
	// From here on Redis has the script: a lost answer is one to a decision, never the one that asks for the script's text.
	status, out := d.call("acme", "POST", "/v1/reservations", object{"reservation_id": "first", "provider": "openai", "model": "flat",
		"estimate": object{"input_tokens": 1, "max_output_tokens": 1}})
	d.want("a first reservation", status, out, 201)
	other := d.another()
	t.Cleanup(other.stop)
	d.eventually("the cheaper model's price at the other replica", func() error {
		_, _, err := other.svc.catalogs.prices.Book().At("openai", "half", d.clock.now())
		return err
	})
	count := map[string]int{}
	offset := int64(0)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		s := &stroll{d: d, t: rt, other: other, tenant: fmt.Sprintf("t%d-%d", run, time.Now().UnixNano()), g: newGate(strollLimits()), receipts: map[*gateHold]string{}, count: count, truths: map[string]*truth{}}
		d.heal()
		d.clock.us.Store(deskStart().UnixMicro())
		s.start(offset)
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": s.reserve, "reserve ": s.reserve, "reserve  ": s.reserve, "reserve once more": s.reserveAgain, "settle": s.settle, "settle ": s.settle,
			"settle late": s.settleLate, "release": s.release, "extend": s.extend, "time": s.time, "time ": s.time, "reap": s.reap,
			"attribute": s.attribute, "usage from Kafka": s.fromKafka, "read the journal": s.readJournal, "publish": s.publish, "another process": s.replace,
			"": func(*rapid.T) { s.compare(); count["steps"]++ },
		})
		s.finish()
		offset = s.b.base + int64(len(s.b.entries)) + 1000
		for v, n := range s.b.verdicts {
			count[string(v)] += n
		}
	})
	for _, name := range sortedKeys(count) {
		t.Logf("%5d %s", count[name], name)
	}
}
