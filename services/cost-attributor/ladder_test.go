package costattributor

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/usageevent"
)

// What a cache answered is a row of $0 that succeeded, whoever reports it and whether the model has a price or not; it is
// never the same call as the one that filled the cache.
func TestCacheHits(t *testing.T) {
	w := newWorld(t, true)
	hit := func(e *usageevent.Event) {
		e.Data.Usage, e.Data.CacheHit, e.Data.ResponseID = nil, usageevent.CacheExact, "resp-1"
	}
	first := call("filled")
	first.Data.ResponseID = "resp-1"
	if entries, reason := w.send(w.record(usageevent.Encode(first), "acme")); reason != "" || len(entries) != 1 {
		t.Fatalf("%v %q", entries, reason)
	}
	for _, c := range []struct {
		name   string
		change func(*usageevent.Event)
	}{
		{"exact", func(*usageevent.Event) {}},
		{"semantic, and says so by zero", func(e *usageevent.Event) {
			e.Data.CacheHit, e.Data.Meters = usageevent.CacheSemantic, map[string]money.Decimal{"output_tokens": {}}
		}},
		{"model without a price", func(e *usageevent.Event) { e.Data.Model = "gpt-9" }},
	} {
		ev := call(c.name)
		hit(&ev)
		c.change(&ev)
		entries, reason := w.send(w.record(usageevent.Encode(ev), "acme"))
		if reason != "" || len(entries) != 1 {
			t.Fatalf("%s: %v %q", c.name, entries, reason)
		}
		if e := entries[0]; !e.Priced() || e.Raw.String() != "0" || e.Billed.String() != "0" || e.Status != ledger.Success || strings.Join(e.Flags, " ") != ledger.FlagCacheHit ||
			e.InputTokens+e.OutputTokens != 0 || e.External != 0 || e.Model != ev.Data.Model {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
	entries, reason := w.send(w.signed(usageevent.OutcomeSettled, func(e *usageevent.Event) { hit(e); e.Data.Reservation.OwnNanos = 0 }))
	if reason != "" || len(entries) != 1 || entries[0].Raw.Sign() != 0 || entries[0].Own != 0 || entries[0].External != 0 || !entries[0].IsOwn() || !entries[0].Has(ledger.FlagCacheHit) {
		t.Errorf("a settled reservation: %q %+v", reason, entries)
	}
}

// A dearer model than was granted is admission's to say: its flag is taken over from a signed event, from no other.
func TestDearerModelFlag(t *testing.T) {
	w := newWorld(t, true)
	flagged := func(e *usageevent.Event) { e.Data.Reservation.Flags = []string{usageevent.FlagDearerModel} }
	entries, reason := w.send(w.signed(usageevent.OutcomeSettled, flagged))
	if reason != "" || len(entries) != 1 || strings.Join(entries[0].Flags, " ") != ledger.FlagDearerModel || entries[0].Raw.String() != "0.0035" {
		t.Errorf("%q %+v", reason, entries)
	}
	r := w.signed(usageevent.OutcomeSettled, func(e *usageevent.Event) { flagged(e); e.ID, e.Data.ReservationID, e.Source = "mine", "", "app" })
	r.Headers = nil
	if entries, reason = w.send(r); reason != "" || len(entries) != 1 || len(entries[0].Flags) != 0 {
		t.Errorf("unsigned: %q %+v", reason, entries)
	}
}

// Goal: a reservation that was held without a price, and so says none in its event, is booked at its own price where there
// is one by now, else unpriced with what was held kept; expired, settled without usage, and settled.
func TestHeldWithoutAPrice(t *testing.T) {
	for _, c := range []struct {
		outcome, model string
		cost           string // "" is unpriced
		own, external  money.Nano
		flags          string
	}{
		{usageevent.OutcomeUnsettled, "gpt-9", "", 10_000_000, 0, "estimated unpriced"},
		{usageevent.OutcomeUnsettled, "gpt-4o", "0.01", 10_000_000, 0, "estimated"},
		{usageevent.OutcomeEstimated, "gpt-9", "", 10_000_000, 0, "estimated unpriced"},
		{usageevent.OutcomeEstimated, "gpt-4o", "0.01", 10_000_000, 0, "estimated"},
		{usageevent.OutcomeSettled, "gpt-9", "", 3_500_000, 0, "unpriced"},
		{usageevent.OutcomeLate, "gpt-9", "", 0, 10_000_000, "unpriced"},
	} {
		w := newWorld(t, true)
		entries, reason := w.send(w.signed(c.outcome, func(e *usageevent.Event) {
			e.Data.Model, e.Data.Reservation.EstimateUSD, e.Data.Reservation.PriceVersion = c.model, nil, ""
		}))
		if reason != "" || len(entries) != 1 {
			t.Fatalf("%s %s: %q %v", c.outcome, c.model, reason, entries)
		}
		e := entries[0]
		if e.Priced() != (c.cost != "") || e.Priced() && (e.Raw.String() != c.cost || e.PriceVersion == "") || e.Own != c.own || e.External != c.external ||
			strings.Join(e.Flags, " ") != c.flags || e.InputTokens == 0 {
			t.Errorf("%s %s: %+v", c.outcome, c.model, e)
		}
	}
}
