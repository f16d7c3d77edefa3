//go:build integration

package admission

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// What users of comparable systems reported in public, by number: docs/reference/field-reports.md says what each was, and
// which test has it. Every report has a tenant of its own at one desk, so that a clock may jump.

// report is one of them at work.
type report struct {
	*desk
	t       *testing.T
	who     string
	k       tenant.Contract
	replica []process // the first is the desk's own
}

// reports runs a section; each gets a new tenant, and the contract it wants.
func reports(t *testing.T, replicas int, section map[string]func(*report)) {
	d := newDesk(t, map[string]tenant.Contract{"acme": contract()})
	d.clock.us.Store(time.Date(2026, 7, 15, 10, 0, 0, 0, time.UTC).UnixMicro())
	all := []process{d.process}
	for range replicas - 1 {
		p := d.another()
		t.Cleanup(p.stop)
		all = append(all, p)
	}
	for _, name := range sortedKeys(section) {
		t.Run(name, func(t *testing.T) {
			d.clock.advance(90 * time.Second)
			for _, p := range all {
				p.compareEpoch()
			}
			number, _, _ := strings.Cut(name, " ")
			section[name](&report{desk: d, t: t, who: "report-" + number, k: contract(), replica: all})
			d.heal()
		})
	}
}

// under takes effect before the report's first call.
func (r *report) under(change func(k *tenant.Contract)) {
	r.t.Helper()
	change(&r.k)
	r.addTenant(r.who, r.k, r.replica[1:]...)
}

// ask reserves cents, one a token of output, at a replica.
func (r *report) ask(replica int, id string, cents int, more ...object) (int, object) {
	r.t.Helper()
	body := object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": cents}}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return r.replica[replica%len(r.replica)].call(r.world, r.who, "POST", "/v1/reservations", body)
}

// later lets time pass for all replicas.
func (r *report) later(by time.Duration) {
	r.clock.advance(by)
	for _, p := range r.replica {
		p.compareEpoch()
	}
}

func (r *report) end(what, id string, body object) (int, object) {
	r.t.Helper()
	return r.desk.call(r.who, "POST", "/v1/reservations/"+id+"/"+what, body)
}

func (r *report) budget() object {
	r.t.Helper()
	status, out := r.desk.call(r.who, "GET", "/v1/budget", nil)
	r.is("budget", status, out, 200)
	return out
}

func (r *report) is(what string, status int, out object, want int, members ...string) {
	r.t.Helper()
	for i := 0; i+1 < len(members); i += 2 {
		if got := fmt.Sprint(out[members[i]]); got != members[i+1] {
			r.t.Fatalf("%s: %s is %s, want %s: %d %v", what, members[i], got, members[i+1], status, out)
		}
	}
	if status != want {
		r.t.Fatalf("%s: %d %v, want %d", what, status, out, want)
	}
}

// figures checks the day's used and held dollars.
func (r *report) figures(used, held string) {
	r.t.Helper()
	b := r.budget()
	if u, h := figureOf(b, "day", "used_usd"), figureOf(b, "day", "held_usd"); u != used || h != held {
		r.t.Fatalf("used %s held %s, want %s and %s", u, h, used, held)
	}
}

// atOnce starts calls behind one barrier, at all replicas in turn, and counts the answers by status and code.
func (r *report) atOnce(n int, call func(i int) (int, object)) map[string]int {
	r.t.Helper()
	var mu sync.Mutex
	var start, done sync.WaitGroup
	start.Add(1)
	count := map[string]int{}
	for i := range n {
		done.Go(func() {
			start.Wait()
			status, out := call(i)
			mu.Lock()
			defer mu.Unlock()
			count[strings.TrimSuffix(fmt.Sprint(status, " ", out["code"]), " <nil>")]++
		})
	}
	start.Done()
	done.Wait()
	return count
}

func (r *report) counts(got map[string]int, want map[string]int) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("%v, want %v", got, want)
	}
}

// execution starts a root, or a child of a token.
func (r *report) execution(body object) string {
	r.t.Helper()
	body["agent_id"] = "a"
	status, out := r.desk.call(r.who, "POST", "/v1/executions", body)
	r.is("execution", status, out, 201)
	return fmt.Sprint(out["token"])
}

// tiered publishes a model whose prompts above 200,000 tokens cost double, to all replicas.
func (r *report) tiered() {
	r.t.Helper()
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	v, err := pricing.Version{Provider: "openai", Model: "tiered", Mode: "chat", Currency: "USD", EffectiveFrom: past, PublishedAt: past, Source: "test",
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: decimalOf("0.000003")}, {Meter: usage.Input, AboveTokens: 200_000, USDPerUnit: decimalOf("0.000006")},
			{Meter: usage.Output, USDPerUnit: decimalOf("0.000015")}, {Meter: usage.Output, AboveTokens: 200_000, USDPerUnit: decimalOf("0.0000225")}}}.Seal()
	r.must(err)
	h := pricing.History{Provider: "openai", Model: "tiered", Versions: []pricing.Version{v}}
	value, err := catalog.EncodePrices(h)
	r.must(err)
	for _, p := range r.replica {
		r.must(p.svc.catalogs.prices.Apply(bus.NewRecord(topics.CatalogPrices, catalog.PriceKey(h), []byte(catalog.PriceKey(h)), value)))
	}
}

// Overshoot and admission races.
func TestFieldReportsOvershoot(t *testing.T) {
	reports(t, 3, map[string]func(*report){
		"01 ten calls of $0.30 in a session of $1.00": func(r *report) {
			r.under(func(*tenant.Contract) {})
			token := r.execution(object{"max_cost_usd": "1.00"})
			r.counts(r.atOnce(10, func(i int) (int, object) { return r.ask(i, fmt.Sprint("r", i), 30, object{"execution_token": token}) }),
				map[string]int{"201": 3, "403 execution_budget_exceeded": 7})
		},
		"02 the first calls of a tenant that nobody knows yet": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Minute = 30 * money.Nano(cent) })
			r.counts(r.atOnce(8, func(i int) (int, object) { return r.ask(i, fmt.Sprint("r", i), 30) }), map[string]int{"201": 1, "429 tenant_quota_exceeded": 7})
		},
		"04 four at a time over all replicas": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency = 4 })
			r.counts(r.atOnce(20, func(i int) (int, object) { return r.ask(i, fmt.Sprint("s", i), 1) }), map[string]int{"201": 4, "429 rate_limited": 16})
		},
		"05 twenty calls against a cap worth one": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Day = dollar })
			r.counts(r.atOnce(20, func(i int) (int, object) { return r.ask(i, fmt.Sprint("r", i), 100) }), map[string]int{"201": 1, "429 tenant_quota_exceeded": 19})
		},
		"07 max_tokens 1 beside max_completion_tokens 10000": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Minute = 200 * dollar })
			status, out := r.ask(0, "r", 0, object{"estimate": object{"input_tokens": 10, "max_tokens": 1, "max_completion_tokens": 10000}})
			r.is("reserve", status, out, 201)
			if got := fmt.Sprint(out["reserved"].(object)["output_tokens"]); got != "10000" {
				r.t.Errorf("%s tokens reserved", got)
			}
		},
		"08 a prompt of 50000 tokens without a cap": func(r *report) {
			r.under(func(*tenant.Contract) {})
			status, out := r.ask(0, "r", 0, object{"model": "gpt-4o", "estimate": object{"input_tokens": 50000}})
			r.is("reserve", status, out, 201)
			if got := fmt.Sprint(out["reserved"].(object)["cost_usd"]); got != "0.28884" { // 50,000 × $0.0000025 + 16,384 × $0.00001
				r.t.Errorf("%s reserved", got)
			}
		},
		"10 a hundred refusals change nothing": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Ceilings.Minute = dollar })
			status, out := r.ask(0, "r", 100)
			r.is("reserve", status, out, 201)
			before := r.budget()
			r.counts(r.atOnce(100, func(i int) (int, object) { return r.ask(i, fmt.Sprint("n", i), 10) }), map[string]int{"429 tenant_quota_exceeded": 100})
			if after := r.budget(); fmt.Sprint(after) != fmt.Sprint(before) {
				r.t.Errorf("%v\n%v", before, after)
			}
		},
		"11 the eleventh call of 10 tokens at 100 a minute": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.OutputTokensPerMinute = 100 })
			for i := range 10 {
				status, out := r.ask(i, fmt.Sprint("r", i), 10)
				r.is("reserve", status, out, 201)
			}
			status, out := r.ask(0, "r10", 10)
			r.is("the eleventh", status, out, 429, "code", "rate_limited", "limit", "output_tokens_per_minute")
		},
		"13 a prompt above the tier's edge is held at the tier's rate": func(r *report) {
			r.tiered()
			r.under(func(*tenant.Contract) {})
			for tokens, want := range map[int]string{200_000: "0.615", 200_001: "1.222506"} { // output 1000: $0.015 and $0.0225
				status, out := r.ask(0, fmt.Sprint("r", tokens), 0, object{"model": "tiered", "estimate": object{"input_tokens": tokens, "max_output_tokens": 1000}})
				r.is("reserve", status, out, 201)
				if got := fmt.Sprint(out["reserved"].(object)["cost_usd"]); got != want {
					r.t.Errorf("%d tokens: %s reserved, want %s", tokens, got, want)
				}
			}
		},
		"14 six holds of 1000 on 5000": func(r *report) {
			r.under(func(k *tenant.Contract) {
				k.Ceilings.Minute, k.Ceilings.Day, k.Ceilings.Month = 5000*dollar, 5000*dollar, 5000*dollar
			})
			r.counts(r.atOnce(6, func(i int) (int, object) { return r.ask(i, fmt.Sprint("r", i), 100_000) }), map[string]int{"201": 5, "429 tenant_quota_exceeded": 1})
		},
		"16 five children of $1 under a root of $3": func(r *report) {
			r.under(func(*tenant.Contract) {})
			root := r.execution(object{"max_cost_usd": "3"})
			var children []string
			for range 5 {
				children = append(children, r.execution(object{"parent_token": root}))
			}
			r.counts(r.atOnce(5, func(i int) (int, object) {
				return r.ask(i, fmt.Sprint("r", i), 100, object{"execution_token": children[i]})
			}),
				map[string]int{"201": 3, "403 execution_budget_exceeded": 2})
		},
		"17 child loops under a root of $1.25, and three caps that multiply to 20": func(r *report) {
			r.under(func(k *tenant.Contract) { k.Limits.Concurrency = 5 })
			root := r.execution(object{"max_cost_usd": "1.25"})
			got := map[string]int{}
			for loop := range 4 { // each asks as if the whole allowance were its own: $2.00 in all
				child := r.execution(object{"parent_token": root, "max_cost_usd": "1.25"})
				for i := range 2 {
					id := fmt.Sprintf("r%d-%d", loop, i)
					status, _ := r.ask(i, id, 25, object{"execution_token": child})
					got[fmt.Sprint(status)]++
					if status == 201 {
						r.end("settle", id, object{"meters": object{"output_tokens": 25}})
					}
				}
			}
			r.counts(got, map[string]int{"201": 5, "403": 3})
			// The tenant's five at a time are five, whatever agents, loops and levels share them.
			tokens := []string{r.execution(object{"max_cost_usd": "9"})}
			for range 19 {
				tokens = append(tokens, r.execution(object{"parent_token": tokens[0]}))
			}
			r.counts(r.atOnce(20, func(i int) (int, object) {
				return r.ask(i, fmt.Sprint("s", i), 1, object{"execution_token": tokens[i]})
			}),
				map[string]int{"201": 5, "429 rate_limited": 15})
		},
	})
}
