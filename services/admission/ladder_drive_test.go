//go:build integration

package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// laddered is a dollar a day, soft up to $1.50, with a cheaper model for "flat": half a cent a token.
func laddered() tenant.Contract {
	k := contract()
	k.Ceilings.Day, k.SoftDay, k.Overrun = dollar, true, percent("50")
	k.Actions = tenant.Actions{SemanticThreshold: "0.95", SavingModels: map[string]string{"openai/flat": "half"}, UpgradeURL: "https://example.com/more",
		Texts: map[ladder.Language]ladder.Texts{ladder.English: {Caching: "Thrifty mode."}}}
	return k
}

func (w *world) publishHalf() {
	w.t.Helper()
	past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	v, err := pricing.Version{Provider: "openai", Model: "half", Mode: "chat", Currency: "USD", EffectiveFrom: past, PublishedAt: past, Source: "test",
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: decimalOf("0.005")}, {Meter: usage.Output, USDPerUnit: decimalOf("0.005")}}}.Seal()
	w.must(err)
	h := pricing.History{Provider: "openai", Model: "half", Versions: []pricing.Version{v}}
	value, err := catalog.EncodePrices(h)
	w.must(err)
	w.publish(bus.NewRecord(topics.CatalogPrices, catalog.PriceKey(h), []byte(catalog.PriceKey(h)), value))
}

// ask reserves as reserve does, with headers.
func (r *replica) ask(tenant, id string, cents int, effect string, headers ...string) (int, object) {
	r.w.t.Helper()
	status, out, header := r.do("POST", "/v1/reservations", r.w.keys[tenant], object{"reservation_id": id, "provider": "openai", "model": "flat", "effect": effect,
		"estimate": object{"input_tokens": 0, "max_output_tokens": cents}}, headers...)
	if status == 403 && header.Get("Retry-After") != "" {
		r.w.t.Errorf("%s: what the ladder refuses is not to be retried", id)
	}
	return status, out
}

func (r *replica) spend(tenant, id string, cents int) {
	r.w.t.Helper()
	status, out := r.settle(tenant, id, object{"meters": object{"output_tokens": cents}})
	r.w.want("settle "+id, status, out, 200)
}

// decided waits for so many decisions of a kind, and returns them by id.
func (w *world) decided(kind weirv1.DecisionKind, many int) map[string]*weirv1.Decision {
	w.t.Helper()
	found := map[string]*weirv1.Decision{}
	w.eventually(fmt.Sprint(many, " decisions of kind ", kind), func() error {
		for p := range int32(topics.AdmissionDecisions.Partitions()) {
			err := w.conn.ReadPartition(w.t.Context(), topics.AdmissionDecisions, p, -1, -1, func(rec bus.Record) error {
				d := new(weirv1.Decision)
				if err := proto.Unmarshal(rec.Value, d); err != nil {
					return err
				}
				if d.GetKind() == kind {
					found[d.GetTenantId()+" "+d.GetId()] = d
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if len(found) < many {
			return fmt.Errorf("%d", len(found))
		}
		return nil
	})
	return found
}

// Goal: one tenant goes down the whole ladder, from the plan's own model to the cut; each answer, each decision and each
// event say so.
func TestDownTheLadder(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": laddered()})
	w.publishHalf()
	r := w.start(func(c *Config) { c.SampleAdmits = 1 })

	status, first := r.ask("acme", "r0", 50, "write")
	w.want("rung 0", status, first, 201, "rung", "0", "mode", "normal", "model", "flat", "percent_used", "0")
	w.want("no cache yet", status, first["cache"].(object), 201, "exact", "false", "semantic_threshold", "<nil>")
	r.spend("acme", "r0", 50)

	status, caching := r.ask("acme", "r1", 30, "write", "Accept-Language", "es-MX, en;q=0.5")
	w.want("rung 1, 50 %", status, caching, 201, "rung", "1", "mode", "caching", "model", "flat", "percent_used", "50",
		"message", "Modo de caché: las respuestas pueden venir de una caché. Se ha usado el 50 % del presupuesto de hoy; los escalones están en el 50, el 80 y el 100 %.")
	w.want("caches", status, caching["cache"].(object), 201, "exact", "true", "semantic_threshold", "0.95")
	status, again := r.ask("acme", "r1", 30, "write", "Accept-Language", "en")
	if status != 200 || !reflect.DeepEqual(again, caching) {
		t.Errorf("the repeat differs: %d\n%v\n%v", status, again, caching)
	}
	r.spend("acme", "r1", 30)

	status, out := r.ask("acme", "w2", 1, "write")
	w.want("a write on rung 2", status, out, 403, "code", "tool_deferred", "rung", "2", "percent_used", "80", "message",
		"This action was not taken and is not queued: try it again when the budget allows it. Saving mode: actions with side effects wait. 80 % of today's budget is used; the steps are at 50, 80 and 100 %.")
	status, out = r.ask("acme", "r2", 20, "read")
	w.want("a read on rung 2", status, out, 201, "rung", "2", "mode", "saving", "model", "half")
	w.want("reserves the cheaper price", status, out["reserved"].(object), 201, "cost_usd", "0.1")
	status, out = r.settle("acme", "r2", object{"meters": object{"output_tokens": 20}, "model": "flat", "receipt": out["receipt"]})
	w.want("a dearer model than granted", status, out, 200, "cost_usd", "0.2", "overage_usd", "0.1", "flags", "[dearer_model]")

	status, out = r.ask("acme", "w3", 1, "write")
	w.want("a write on rung 3", status, out, 403, "code", "read_only_mode", "rung", "3", "percent_used", "100")
	status, out = r.ask("acme", "r3", 40, "")
	w.want("a read on rung 3", status, out, 201, "rung", "3", "mode", "read_only", "model", "half")
	status, out = r.settle("acme", "r3", object{"cache_hit": "semantic"})
	w.want("a cache hit", status, out, 200, "cost_usd", "0", "billed_usd", "0", "overage_usd", "0", "flags", "[cache_hit]", "estimated", "false", "status", "SUCCESS")
	w.want("what a cache answered with usage", 0, func() object {
		_, out := r.settle("acme", "r3", object{"cache_hit": "exact", "meters": object{"output_tokens": 1}})
		return out
	}(), 0, "code", "invalid_argument", "field", "cache_hit")

	status, out = r.ask("acme", "r4", 101, "read", "Accept-Language", "es") // $0.505 at the cheaper model, $0.50 left of the overrun
	w.want("beyond the overrun", status, out, 429, "code", "tenant_quota_exceeded", "window", "day", "rung", "4", "upgrade_url", "https://example.com/more")
	if !strings.HasPrefix(fmt.Sprint(out["message"]), "El presupuesto de hoy está agotado. ") || out["resets_at"] == nil || out["retry_after_ms"] != nil {
		t.Errorf("the cut: %v", out)
	}
	w.checkLadderEvents(caching)
}

func (w *world) checkLadderEvents(caching object) {
	w.t.Helper()
	changes := w.decided(weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED, 3)
	steps := map[string]string{}
	for _, d := range changes {
		steps[d.GetReservationId()] = fmt.Sprint(d.GetPreviousRung(), ">", d.GetRung(), d.GetNotifyBilling())
	}
	if want := map[string]string{"r1": "0>1 false", "r2": "1>2 false", "r3": "2>3 false"}; !maps.Equal(steps, want) {
		w.t.Errorf("rung changes %v", steps)
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(caching["reserved_at"]))
	w.must(err)
	if changes[fmt.Sprintf("acme rung:r1:%d", at.UnixNano())] == nil {
		w.t.Errorf("no such id: %v", slices.Collect(maps.Keys(changes)))
	}
	refused := map[string]string{}
	for _, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_REFUSED, 3) {
		refused[d.GetReservationId()] = fmt.Sprint(d.GetCode(), " ", d.GetLimit(), d.GetRung(), d.GetResetsAt() != nil)
	}
	if want := map[string]string{"w2": "tool_deferred 2 false", "w3": "read_only_mode 3 false", "r4": "tenant_quota_exceeded day4 true"}; !maps.Equal(refused, want) {
		w.t.Errorf("refusals %v", refused)
	}
	admitted := 0
	for _, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_ADMITTED, 4) {
		if admitted++; d.GetSampleWeight() != 1 {
			w.t.Errorf("%v", d)
		}
	}
	if admitted != 4 {
		w.t.Errorf("%d admissions told of, want each once", admitted)
	}
	events := map[string]string{}
	for _, row := range w.outboxRows() {
		ev, err := usageevent.Decode(row.payload, nil)
		w.must(err)
		d := ev.Data
		events[d.ReservationID] = fmt.Sprint(d.Model, " ", d.Status, " ", d.CacheHit, d.Reservation.Flags, d.Reservation.OwnNanos)
	}
	if want := map[string]string{"r0": "flat SUCCESS [] 500000000", "r1": "flat SUCCESS [] 300000000", "r2": "flat SUCCESS [dearer_model] 200000000",
		"r3": "half SUCCESS semantic[] 0"}; !maps.Equal(events, want) {
		w.t.Errorf("events %v", events)
	}
}

// Goal: field report 49: a 99 % step of $15.00 is reached at $14.85, not before.
func TestStepAt99Percent(t *testing.T) {
	k := laddered()
	k.Ceilings.Day, k.Ladder = 15*dollar, [3]int32{99, 100, 100}
	w := newWorld(t, map[string]tenant.Contract{"acme": k})
	r := w.start()
	spent := 0
	for _, c := range []struct {
		more int // cents
		rung string
	}{{40, "0"}, {1400, "0"}, {44, "0"}, {1, "1"}, {14, "1"}, {1, "2"}} {
		status, out := r.ask("acme", fmt.Sprint("s", spent), c.more, "read")
		w.want("admitted", status, out, 201)
		r.spend("acme", fmt.Sprint("s", spent), c.more)
		spent += c.more
		want := c.rung
		if spent == 1500 {
			want = "3" // 100 % is two steps at once
		}
		status, out, _ = r.do("GET", "/v1/budget", w.keys["acme"], nil)
		w.want(fmt.Sprintf("after $%d.%02d", spent/100, spent%100), status, out, 200, "rung", want)
	}
}

// Goal: field report 43: 130 spent of 100 refuses the next call where the day is hard, and degrades it where it is soft.
func TestSpentBeyondTheLimit(t *testing.T) {
	hard, soft := laddered(), laddered()
	hard.SoftDay, hard.Ceilings.Day, soft.Ceilings.Day = false, 100*dollar, 100*dollar
	hard.Ceilings.Minute, soft.Ceilings.Minute = 1000*dollar, 1000*dollar
	w := newWorld(t, map[string]tenant.Contract{"hard": hard, "soft": soft})
	w.publishHalf()
	r := w.start()
	for _, tenant := range []string{"hard", "soft"} {
		status, out := r.ask(tenant, "r", 4000, "read")
		w.want("reserved", status, out, 201)
		status, out = r.settle(tenant, "r", object{"meters": object{"output_tokens": 13000}})
		w.want("130 of 100", status, out, 200, "cost_usd", "130", "overage_usd", "90")
	}
	status, out := r.ask("hard", "next", 1, "read")
	w.want("the next of a hard day", status, out, 429, "code", "tenant_quota_exceeded", "window", "day", "percent_used", "130")
	status, out = r.ask("soft", "next", 1, "read")
	w.want("the next of a soft day", status, out, 201, "rung", "3", "mode", "read_only", "model", "half", "percent_used", "130")
	status, out = r.ask("soft", "send", 1, "write")
	w.want("a write of a soft day", status, out, 403, "code", "read_only_mode")
}

// Goal: a month that is used up is told to billing once, with its end; the account shows rung, steps and text in the
// caller's language.
func TestMonthIsCut(t *testing.T) {
	k := laddered()
	k.Ceilings.Month = dollar
	w := newWorld(t, map[string]tenant.Contract{"acme": k})
	r := w.start()
	status, out := r.ask("acme", "r", 100, "write")
	w.want("all of it", status, out, 201)
	r.spend("acme", "r", 100)
	var resets string
	for i := range 3 {
		status, out = r.ask("acme", fmt.Sprint("more", i), 1, "read")
		w.want("cut", status, out, 429, "window", "month", "rung", "4")
		resets = fmt.Sprint(out["resets_at"])
	}
	for id, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED, 1) {
		if !strings.HasPrefix(id, "acme rung:month:") || d.GetRung() != 4 || d.GetPreviousRung() != 3 || !d.GetNotifyBilling() || d.GetResetsAt().AsTime().Format(time.RFC3339) != resets {
			t.Errorf("%s %v, resets %s", id, d, resets)
		}
	}
	for id, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_REFUSED, 3) {
		if !d.GetNotifyBilling() || d.GetLimit() != "month" {
			t.Errorf("%s %v", id, d)
		}
	}
	status, out, _ = r.do("GET", "/v1/budget", w.keys["acme"], nil, "Accept-Language", "es")
	w.want("the account", status, out, 200, "rung", "4", "mode", "cut", "percent_used", "100")
	if !strings.HasPrefix(fmt.Sprint(out["message"]), "El presupuesto de este mes está agotado. ") {
		t.Errorf("%v", out["message"])
	}
	steps, _ := out["steps"].([]any)
	if len(steps) != 3 || fmt.Sprint(steps[1]) != "map[from_usd:0.8 mode:saving percent:80 rung:2]" {
		t.Errorf("%v", steps)
	}
}

// Goal: every change of rung is told exactly where it happened, whatever runs at once: in the order of the store's clock,
// each admission either stands on the rung of the one before or has a change that says from where. Method: two replicas,
// many callers, every admission sampled.
func TestRungChangesAreAChain(t *testing.T) {
	k := laddered()
	k.SoftDay = false
	w := newWorld(t, map[string]tenant.Contract{"acme": k})
	w.publishHalf()
	all := func(c *Config) { c.SampleAdmits = 1 }
	replicas := []*replica{w.start(all), w.start(all)}
	ids := make(chan string)
	var callers sync.WaitGroup
	for n := range 8 {
		r := replicas[n%2]
		callers.Go(func() {
			for id := range ids {
				if status, _ := r.reserve("acme", id, 2); status == 201 && len(id)%2 == 0 {
					r.do("POST", "/v1/reservations/"+id+"/release", w.keys["acme"], nil)
				}
			}
		})
	}
	for n := range 150 {
		ids <- fmt.Sprintf("c%d%s", n, strings.Repeat("x", n%2)) // half of them, roughly, go back, so that the rung rises and falls
	}
	close(ids)
	callers.Wait()

	var admitted []*weirv1.Decision
	w.eventually("all are told of", func() error {
		admitted = slices.Collect(maps.Values(w.decided(weirv1.DecisionKind_DECISION_KIND_ADMITTED, 1)))
		refused := w.decided(weirv1.DecisionKind_DECISION_KIND_REFUSED, 0)
		if len(admitted)+len(refused) != 150 {
			return fmt.Errorf("%d admitted, %d refused", len(admitted), len(refused))
		}
		return nil
	})
	slices.SortFunc(admitted, func(a, b *weirv1.Decision) int { return a.GetDecidedAt().AsTime().Compare(b.GetDecidedAt().AsTime()) })
	changes := map[string]string{}
	for _, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED, 1) {
		changes[d.GetReservationId()] = fmt.Sprint(d.GetPreviousRung(), ">", d.GetRung())
	}
	before, met := int32(0), 0
	for _, d := range admitted {
		want := ""
		if d.GetRung() != before {
			want = fmt.Sprint(before, ">", d.GetRung())
			met++
		}
		if got := changes[d.GetReservationId()]; got != want {
			t.Errorf("%s at %s: change %q, want %q", d.GetReservationId(), d.GetDecidedAt().AsTime(), got, want)
		}
		before = d.GetRung()
	}
	if met != len(changes) || met == 0 {
		t.Errorf("%d changes told of, %d happened", len(changes), met)
	}
}
