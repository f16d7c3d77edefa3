//go:build integration

package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/oracle"
	"github.com/weir-project/weir/loadtest/play"
	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/loadtest/workload"
)

// Whatever dies, runs twice or is sent again: the bill is the workload's, to the last digit.
func TestSameBillOnKfake(t *testing.T)       { sameBill(t, "kfake") }
func TestSameBillOnApacheKafka(t *testing.T) { sameBill(t, "apache") }

func sameBill(t *testing.T, kind string) {
	w := start(t, kafkaFlags(kind)...)
	first := makeWorkload(t, 11, "a.")
	for i := range first.Events { // a repeat that is counted below must come from a crash
		first.Events[i].Copies = 1
	}
	w.tenants(tenantsYAML(first), first.Tenants...)

	bill := first.Bill
	if !t.Run("each service is killed with work in flight", func(t *testing.T) { w.on(t).killEach(first, kind) }) {
		return
	}
	if !t.Run("two copies of each service", func(t *testing.T) {
		w := w.on(t)
		second := makeWorkload(t, 12, "b.")
		bill = bill.Plus(second.Bill)
		w.up(append(kafkaFlags(kind), doubled()...)...)
		if err := w.play(second, play.Target{}); err != nil {
			t.Fatal(err)
		}
		w.mustBill(bill)
		w.mustAudit()
	}) {
		return
	}
	t.Run("everything is sent again", func(t *testing.T) { w.on(t).sendAgain(bill, kind) })
}

// on is w for a subtest.
func (w *world) on(t *testing.T) *world {
	return &world{Rig: w.Rig, t: t, sender: w.sender, keys: w.keys, gates: w.gates, zone: w.zone}
}

func makeWorkload(t *testing.T, seed uint64, prefix string) workload.Workload {
	t.Helper()
	rates, err := oracle.ReadRates([]byte(input(t, loadtest.Prices)), "openai")
	if err != nil {
		t.Fatal(err)
	}
	wl, err := workload.Make(workload.Config{Seed: seed, Prefix: prefix, Tenants: 3, Leads: 90, FanOut: 50, Events: 150, Poison: 6, Rates: rates})
	if err != nil {
		t.Fatal(err)
	}
	return wl
}

// tenantsYAML gives each tenant room for everything.
func tenantsYAML(w workload.Workload) string {
	var b strings.Builder
	b.WriteString("tenants:\n")
	for _, id := range w.Tenants {
		fmt.Fprintf(&b, "  - id: %s\n    limits: {concurrency: 100}\n    ceilings: {minute_usd: 1000, day_usd: 5000, month_usd: 5000}\n    markup_percent: %s\n", id, w.Markups[id])
	}
	return b.String()
}

// programs are the services, those that are hurt most by a crash first.
func programs() []string {
	return []string{"cost-attributor", "admission", "outbox-relay", "budget-aggregator", "breaker"}
}

func doubled() []string {
	var flags []string
	for _, p := range programs() {
		flags = append(flags, "--replicas", p+"=2")
	}
	return flags
}

func (w *world) play(wl workload.Workload, pace play.Target) error {
	pace.Client, pace.Send, pace.Now, pace.Workers = w.client, w.sender.Send, time.Now(), 16
	return play.Play(w.t.Context(), wl, pace)
}

// kill ends every copy of a service without warning.
func (w *world) kill(program string) {
	w.t.Helper()
	for _, p := range w.status().Services {
		if p.Name == program || strings.HasPrefix(p.Name, program+"-") {
			if err := p.Signal(syscall.SIGKILL); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// playFor is how long the calls would be spread over, were those after the last kill not made at once.
const playFor = 35 * time.Second

// killEach kills each service in turn while calls are made, starts it again, and counts what was delivered again. The calls
// do not run ahead of the kills, however slow those are: at each, between one step and two are under way or still to come.
func (w *world) killEach(wl workload.Workload, kind string) {
	var done atomic.Int64
	finished, leave := make(chan error, 1), make(chan struct{}, len(wl.Calls))
	go func() {
		finished <- w.play(wl, play.Target{Every: playFor / time.Duration(len(wl.Calls)), Leave: leave, Done: &done})
	}()
	step, left := len(wl.Calls)/(len(programs())+3), len(wl.Calls)
	let := func(calls int) {
		for range min(calls, left) {
			leave <- struct{}{}
			left--
		}
	}
	let(2 * step)
	var again int64
	for i, program := range programs() {
		let(step)
		await(w.t, fmt.Sprintf("call %d", (i+1)*step), func() bool {
			select {
			case err := <-finished:
				w.t.Fatalf("the play ended early: %v", err)
			default:
			}
			return done.Load() >= int64((i+1)*step)
		})
		again += w.redelivered() // of those that are about to lose their count
		if program == "cost-attributor" {
			w.t.Logf("killed between entries and commit: %d offsets", w.killBetween(func() { let(5) }))
		} else {
			w.kill(program)
		}
		w.up(kafkaFlags(kind)...)
	}
	close(leave) // the rest at once
	if err := <-finished; err != nil {
		w.t.Fatal(err)
	}
	w.mustBill(wl.Bill)
	if again += w.redelivered(); again == 0 {
		w.t.Error("no record was delivered again: the kills proved nothing")
	}
	w.t.Logf("records delivered again: %d", again)
	w.mustAudit()
}

// redelivered adds up what the services count as delivered again.
func (w *world) redelivered() (total int64) {
	w.t.Helper()
	for _, p := range w.status().Services {
		for name, label := range map[string]string{
			"weir_bus_redelivered_records_total": "", "weir_attributor_events_total": `result="duplicate"`,
			"weir_aggregator_duplicates_total": "", "weir_breaker_duplicates_total": "",
		} {
			n, err := rig.Metric(w.t.Context(), p.Address, name, label)
			if err != nil {
				w.t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// sendAgain sends every usage event a second time, and after a restart of the attributor a third time, into other
// partitions than the right ones.
func (w *world) sendAgain(bill oracle.Bill, kind string) {
	ctx := w.t.Context()
	all, err := w.AllEvents(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.sender.Resend(ctx, all, 0); err != nil {
		w.t.Fatal(err)
	}
	w.kill("cost-attributor")
	w.up(append(kafkaFlags(kind), doubled()...)...)
	if err := w.sender.Resend(ctx, all, 1); err != nil {
		w.t.Fatal(err)
	}
	w.mustAudit() // waits until all is read
	w.mustBill(bill)
	w.t.Logf("%d events sent three times", len(all))
}
