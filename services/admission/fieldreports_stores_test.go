//go:build integration

package admission

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
)

// answers is how often this process answered with a code.
func (p process) answers(t *testing.T, code string) (n int) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "weir_admission_answers_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "code" && l.GetValue() == code {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// Replicas, Redis, fail-open.
func TestFieldReportsStores(t *testing.T) {
	reports(t, 3, map[string]func(*report){
		"38 a hundred tokens a minute over three replicas": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.OutputTokensPerMinute = 100 })
			r.counts(r.atOnce(60, func(i int) (int, object) { return r.ask(i, fmt.Sprint("r", i), 5) }), map[string]int{"201": 20, "429 rate_limited": 40})
			used := r.budget()["limits"].(object)["output_tokens_per_minute"].(object)
			if fmt.Sprint(used["used"], used["remaining"]) != "1000" { // "100" and "0"
				r.t.Errorf("%v", used)
			}
		},
		"40 Redis is away": func(r *report) {
			r.roomy()
			r.hold("before", 1)
			before := r.answers(r.t, "budget_store_unavailable")
			r.redisWire.set(severed)
			for i := range 5 {
				status, out := r.ask(0, fmt.Sprint("r", i), 1)
				r.is("away", status, out, 503, "code", "budget_store_unavailable")
			}
			r.heal()
			if after := r.answers(r.t, "budget_store_unavailable"); after-before != 5 {
				r.t.Errorf("%d answers in the metric, want 5", after-before)
			}
			r.figures("0.01", "0.01")
		},
		"44 five calls of $0.30 on $1.00": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Day = dollar })
			for i, left := range []string{"0.7", "0.4", "0.1"} {
				id := fmt.Sprint("r", i)
				out := r.hold(id, 30)
				if got := fmt.Sprint(out["remaining"].(object)["day_usd"]); got != left {
					r.t.Errorf("call %d: %s left, want %s", i, got, left)
				}
				status, out := r.end("settle", id, object{"meters": object{"output_tokens": 30}})
				r.is("settle", status, out, 200)
				r.later(20 * time.Minute) // nothing is refilled by waiting
			}
			for i := range 2 {
				status, out := r.ask(0, fmt.Sprint("n", i), 30)
				r.is("the fourth and fifth", status, out, 429, "code", "tenant_quota_exceeded", "window", "day")
			}
		},
		"46 a stream whose last frame has the usage": func(r *report) {
			r.roomy()
			for i, c := range []struct{ api, usage, cost string }{
				{"chat.completions", `{"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17}}`, "0.17"},
				{"chat.completions", `{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17}`, "0.17"},
				{"responses", `{"type":"response.completed","response":{"id":"r1","usage":{"input_tokens":10,"output_tokens":7,"total_tokens":17}}}`, "0.17"},
			} {
				id := fmt.Sprint("r", i)
				r.hold(id, 100)
				status, out := r.end("settle", id, object{"api": c.api, "usage": raw(c.usage)})
				r.is(c.usage, status, out, 200, "cost_usd", c.cost, "estimated", "false")
			}
			if used := fmt.Sprint(r.budget()["limits"].(object)["output_tokens_per_minute"].(object)["used"]); used != "21" {
				r.t.Errorf("%s output tokens counted", used)
			}
		},
		"50 nothing fails open, whatever is away": func(r *report) {
			r.roomy()
			r.hold("known", 1)
			status, out := r.ask(1, "open", 1) // by another replica, so that the one that settles does not know it
			r.is("reserve elsewhere", status, out, 201)
			for name, w := range map[string]*wire{"Redis": r.redisWire, "Postgres": r.pgWire} {
				w.set(severed)
				status, out := r.ask(0, name, 1)
				settled, answer := r.end("settle", "open", object{"meters": object{"output_tokens": 1}})
				r.heal()
				if name == "Redis" || status != 201 { // a reservation needs no Postgres once the tenant's counters exist
					r.is(name+" away: reserve", status, out, 503)
				}
				r.is(name+" away: settle without a receipt", settled, answer, 503)
			}
			r.redisWire.set(severed) // what this replica has granted itself is Postgres' to decide
			status, out = r.end("settle", "known", object{"meters": object{"output_tokens": 1}})
			r.heal()
			r.is("Redis away: settle of a hold that is remembered", status, out, 200)
		},
	})
}

// Windows and time.
func TestFieldReportsWindows(t *testing.T) {
	reports(t, 1, map[string]func(*report){
		"100 day and month turn where the tenant's calendar does": func(r *report) {
			r.under(func(k *tenant.Contract) {
				k.Timezone, k.Ceilings = "Asia/Kolkata", tenant.Ceilings{Minute: dollar, Day: 2 * dollar, Month: 3 * dollar}
			})
			loc, err := time.LoadLocation("Asia/Kolkata")
			r.must(err)
			at := func(month time.Month, day, hour, minute int) {
				r.clock.us.Store(time.Date(2026, month, day, hour, minute, 1, 0, loc).UnixMicro())
				r.compareEpoch()
			}
			n := 0
			ask := func(cents, want int, window string) {
				r.t.Helper()
				n++
				status, out := r.ask(0, fmt.Sprint("r", n), cents)
				if want == 201 {
					r.is(window, status, out, 201)
					r.end("settle", fmt.Sprint("r", n), object{"meters": object{"output_tokens": cents}})
					return
				}
				r.is(window, status, out, want, "window", window)
			}
			at(8, 30, 23, 55)
			ask(100, 201, "day 1")
			at(8, 30, 23, 57)
			ask(100, 201, "day 1")
			at(8, 30, 23, 59)
			ask(1, 429, "day")
			at(8, 31, 0, 0)
			ask(100, 201, "day 2")
			at(8, 31, 0, 2)
			ask(1, 429, "month")
			at(9, 1, 0, 0)
			ask(100, 201, "the next month")
		},
		"106 Redis and the books turn their windows at the same instant": func(r *report) {
			for i, zone := range []string{"UTC", "Europe/Budapest", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Kiritimati"} {
				r.who = fmt.Sprint("report-106-", i)
				r.under(func(k *tenant.Contract) { k.Timezone = zone })
				loc, err := time.LoadLocation(zone)
				r.must(err)
				edge := time.Date(2026, 10, 25, 0, 0, 0, 0, loc) // in Budapest a day of 25 hours
				for j, at := range []time.Time{edge.Add(-time.Microsecond), edge, edge.AddDate(0, 0, 1).Add(-time.Microsecond), edge.AddDate(0, 0, 7).Add(-time.Microsecond), edge.AddDate(0, 0, 7)} {
					r.clock.us.Store(at.UnixMicro())
					r.compareEpoch()
					id := fmt.Sprint("r", j)
					r.hold(id, 1)
					h, err := r.svc.fromHold(r.t.Context(), r.who, id)
					r.must(err)
					row, err := r.svc.counters.Hold(r.t.Context(), tenantAt(r.who), id)
					r.must(err)
					if k := window.KeysAt(h.reservedAt, loc); row.Answer.Day != k.Day || row.Answer.Month != k.Month || !h.reservedAt.Equal(at) {
						r.t.Errorf("%s %s: Redis has %d %d, the books %d %d", zone, at, row.Answer.Day, row.Answer.Month, k.Day, k.Month)
					}
				}
			}
		},
		"107 opened at 23:59, settled at 00:01": func(r *report) {
			r.roomy()
			r.clock.us.Store(time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC).UnixMicro())
			r.compareEpoch()
			root := r.execution(object{"max_cost_usd": "9"})
			child := r.execution(object{"parent_token": root})
			r.hold("r", 100, object{"execution_token": child})
			r.later(2 * time.Minute)
			status, out := r.end("settle", "r", object{"meters": object{"output_tokens": 40}})
			r.is("settle", status, out, 200)
			r.figures("0", "0") // December has nothing
			entries, booked, _ := r.closed()
			if k := entries[0].Windows; booked != 40 || k.Day != 20261130 || k.Month != 202611 {
				r.t.Errorf("%d booked on %d", booked, k.Day)
			}
		},
	})
}

func tenantAt(id string) budgetstore.Tenant { return budgetstore.Tenant{ID: id, Epoch: 4711} }

func raw(s string) json.RawMessage { return json.RawMessage(s) }
