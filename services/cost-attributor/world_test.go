package costattributor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/usageevent"
)

var now = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func secret(t testing.TB) identity.Secret {
	t.Helper()
	return must[identity.Secret](t)(identity.NewSecret([]byte("0123456789abcdef0123456789abcdef")))
}

func rate(t testing.TB, m usage.Meter, s string) pricing.Rate {
	t.Helper()
	return pricing.Rate{Meter: m, USDPerUnit: must[money.Decimal](t)(money.ParseDecimal(s))}
}

// gpt4o costs $2.50 and $10.00 a million.
func gpt4o(t testing.TB) pricing.History {
	t.Helper()
	v := must[pricing.Version](t)(pricing.Version{Provider: "openai", Model: "gpt-4o", Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0).UTC(),
		PublishedAt: now, Source: "test", Rates: []pricing.Rate{rate(t, usage.Input, "0.0000025"), rate(t, usage.Output, "0.00001")}}.Seal())
	return must[pricing.History](t)(pricing.History{Provider: "openai", Model: "gpt-4o"}.Add(v))
}

// contract has a markup of 20 % and a day that begins at 18:30 UTC.
func contract(t testing.TB) tenant.Contract {
	t.Helper()
	c := tenant.Contract{EffectiveFrom: time.Unix(0, 0).UTC(), Limits: tenant.Limits{Concurrency: 5}, Ceilings: tenant.Ceilings{Minute: 1e12, Day: 1e12, Month: 1e12},
		Count: tenant.CountRaw, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(), Timezone: "Asia/Kolkata", Markup: must[money.Percent](t)(money.ParsePercent("20")),
		Overrun: must[money.Percent](t)(money.ParsePercent("10"))}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// world is an attributor with a journal and a dead letter in memory.
type world struct {
	t       testing.TB
	a       *attributor
	journal []bus.Record
	dead    []bus.Record
	moved   []bus.Record
	fail    error // of the next write, after its first record was written
	offset  int64
	key     identity.TokenKey
}

func newWorld(t testing.TB, trusted bool) *world {
	t.Helper()
	w := &world{t: t}
	w.key = must[identity.TokenKey](t)(identity.NewTokenKey(bytes.NewReader(make([]byte, 64))))
	book, c := pricing.NewBook(gpt4o(t)), contract(t)
	w.a = &attributor{
		log: slog.New(slog.NewTextHandler(io.Discard, nil)), metrics: must[*metrics](t)(newMetrics(prometheus.NewRegistry())), maxIDs: 1000,
		reader: w, produce: w.produce, loaded: func(context.Context) error { return nil },
		verifier: verifier{secret: secret(t), keys: w.key.Only(), trusted: trusted},
		catalogs: catalogs{zones: &catalog.Zones{}, book: func() *pricing.Book { return book },
			contract: func(id string, _ time.Time) (tenant.Contract, bool) { return c, id == "acme" || id == "other" }},
	}
	w.restart()
	return w
}

// restart forgets everything but the journal.
func (w *world) restart() {
	w.t.Helper()
	w.a.books = map[int32]*book{}
	for p := range int32(topics.UsageEvents.Partitions()) {
		if _, err := w.a.assigned(w.t.Context(), bus.NewClaim(topics.UsageEvents, p, 1, nil), bus.Committed{Offset: -1}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) ReadPartition(_ context.Context, _ bus.Topic, partition int32, _, _ int64, fn func(bus.Record) error) error {
	for _, r := range w.journal {
		if r.Partition == partition {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) produce(_ context.Context, records ...bus.Record) error {
	fail := w.fail
	w.fail = nil
	for _, r := range records {
		switch r.Topic.Name() {
		case topics.LedgerEntries.Name():
			w.journal = append(w.journal, r)
		case topics.UsageDeadletter.Name():
			w.dead = append(w.dead, r)
		default:
			w.moved = append(w.moved, r)
		}
		if fail != nil {
			return fail
		}
	}
	return nil
}

// record puts an event where it belongs; the caller may move it.
func (w *world) record(value []byte, tenant string, headers ...string) bus.Record {
	r := bus.NewRecord(topics.UsageEvents, tenant, []byte(tenant), value)
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, bus.Header{Key: headers[i], Value: []byte(headers[i+1])})
	}
	r.Offset, r.Timestamp = w.offset, now
	w.offset++
	return r
}

// send handles one record and returns the new entries and the reason of a new dead letter.
func (w *world) send(r bus.Record) ([]ledger.Entry, string) {
	w.t.Helper()
	before, deadBefore := len(w.journal), len(w.dead)
	if err := w.a.handle(w.t.Context(), bus.NewClaim(topics.UsageEvents, r.Partition, 1, nil), []bus.Record{r}); err != nil {
		w.t.Fatal(err)
	}
	reason := ""
	if len(w.dead) > deadBefore {
		b, _ := w.dead[len(w.dead)-1].Header(headerReason)
		reason = string(b)
	}
	return w.entries(before), reason
}

func (w *world) entries(from int) []ledger.Entry {
	w.t.Helper()
	var out []ledger.Entry
	for _, r := range w.journal[from:] {
		out = append(out, must[ledger.Entry](w.t)(ledgercodec.Unmarshal(r.Value)))
	}
	return out
}

// total sums the journal, each entry id once.
func (w *world) total() (raw money.USD, nanos money.Nano) {
	w.t.Helper()
	seen := map[string]bool{}
	for _, e := range w.entries(0) {
		if !seen[e.ID] && e.Priced() {
			raw, nanos = raw.Add(*e.Raw), nanos+e.Own+e.External
		}
		seen[e.ID] = true
	}
	return raw, nanos
}

// call is an event of 1,000 prompt tokens of which none is cached, and 100 of completion: $0.0035.
func call(id string) usageevent.Event {
	return usageevent.Event{ID: id, Source: "app", Type: usageevent.TypeUsage, Subject: "acme", Time: now.Add(-time.Minute),
		Data: usageevent.Data{Provider: "openai", Model: "gpt-4o", API: "chat.completions", AgentID: "a", RootExecutionID: "x",
			Usage: json.RawMessage(`{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}`)}}
}

// signed is an event of admission about reservation r1.
func (w *world) signed(outcome string, change func(*usageevent.Event)) bus.Record {
	w.t.Helper()
	ev := call(outcome + ":r1:1")
	ev.Source, ev.Data.ReservationID = usageevent.SourceAdmission, "r1"
	estimate := must[money.USD](w.t)(money.ParseUSD("0.01"))
	ev.Data.Reservation = &usageevent.Reservation{ReservedAt: now.Add(-2 * time.Minute), Outcome: outcome, HeldNanos: 10_000_000, Epoch: 7, EstimateUSD: &estimate, Depth: 2,
		Estimate: map[string]money.Decimal{"input_tokens": money.NewDecimal(2000), "output_tokens": money.NewDecimal(500)}, PriceVersion: "pv"}
	switch outcome {
	case usageevent.OutcomeSettled:
		ev.Data.Reservation.OwnMode, ev.Data.Reservation.OwnNanos = usageevent.OwnModeDirect, 3_500_000
	case usageevent.OutcomeEstimated, usageevent.OutcomeUnsettled:
		ev.Data.Usage = nil
		ev.Data.Reservation.OwnMode, ev.Data.Reservation.OwnNanos = usageevent.OwnModeDirect, 10_000_000
	}
	if outcome == usageevent.OutcomeUnsettled {
		ev.Type = usageevent.TypeUnsettled
	}
	if change != nil {
		change(&ev)
	}
	value := usageevent.Encode(ev)
	return w.record(value, ev.Subject, identity.SignatureHeader, identity.Sign(secret(w.t), value))
}
