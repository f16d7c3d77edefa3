//go:build integration

package admission

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/usageevent"
)

// books plays everything between the outbox and admission's readers for one tenant, by the real rules: the relay (rows of
// the outbox in order), the attributor (pkg/domain/ledger) and the aggregator (sums by window). Everything costs a cent a
// token, or half of one at the cheaper model, but for what has no price.
type books struct {
	d        *desk
	tenant   string
	outbox   int64 // the last row that was read
	state    *ledger.State
	entries  []ledger.Entry // the journal of this tenant
	base     int64          // offset of entries[0]
	verdicts map[ledger.Verdict]int
}

func newBooks(d *desk, tenant string, base int64) *books {
	return &books{d: d, tenant: tenant, base: base, state: ledger.NewState(), verdicts: map[ledger.Verdict]int{}}
}

// relay publishes up to most rows of the outbox and books them; it returns their events.
func (b *books) relay(most int) []usageevent.Event {
	b.d.t.Helper()
	rows, err := b.d.pg.Query(context.Background(), "SELECT seq, payload FROM outbox WHERE aggregateid = $1 AND seq > $2 ORDER BY seq LIMIT $3", b.tenant, b.outbox, most)
	b.d.must(err)
	defer rows.Close()
	var events []usageevent.Event
	for rows.Next() {
		var payload []byte
		b.d.must(rows.Scan(&b.outbox, &payload))
		ev, err := usageevent.Decode(payload, nil)
		b.d.must(err)
		events = append(events, ev)
		b.book(b.facts(ev))
	}
	b.d.must(rows.Err())
	return events
}

// book is the attributor: a decision, and its entries in the journal.
func (b *books) book(f ledger.Facts) ledger.Decision {
	b.d.t.Helper()
	c, err := ledger.NewCandidate(f)
	b.d.must(err)
	decision := b.state.Decide(c)
	for _, e := range decision.Entries {
		b.state.Apply(e)
		b.entries = append(b.entries, e)
	}
	b.verdicts[decision.Verdict]++
	return decision
}

// facts are those of a signed event of admission's.
func (b *books) facts(ev usageevent.Event) ledger.Facts {
	r := ev.Data.Reservation
	f := ledger.Facts{Tenant: b.tenant, Source: ev.Source, EventID: ev.ID, ContentHash: usageevent.ContentHash(ev), EventTime: ev.Time, RecordedAt: ev.Time,
		Location: time.UTC, Provider: ev.Data.Provider, Model: ev.Data.Model, ReservationID: ev.Data.ReservationID,
		Lineage: ledger.Lineage{RootExecutionID: ev.Data.RootExecutionID, Depth: r.Depth},
		Hold: &ledger.Hold{ReservedAt: r.ReservedAt, OwnMode: ledger.OwnMode(r.OwnMode), Own: r.OwnNanos, Held: r.HeldNanos, Epoch: r.Epoch,
			EstimateUSD: r.EstimateUSD, PriceVersion: r.PriceVersion}}
	meters := ev.Data.Meters
	switch r.Outcome {
	case usageevent.OutcomeEstimated:
		f.Message, meters = ledger.Estimate, r.Estimate
	case usageevent.OutcomeUnsettled:
		f.Message, meters = ledger.Expiry, r.Estimate
	case usageevent.OutcomeLate:
		f.Message = ledger.Late
	default:
		f.Message = ledger.Settle
	}
	f.Meters = usage.Meters{}
	for name, q := range meters {
		f.Meters[usage.Meter(name)] = q
	}
	return b.price(f)
}

// price charges a cent a token, or half of one.
func (b *books) price(f ledger.Facts) ledger.Facts {
	u := usage.FromMeters(f.Meters)
	f.InputTokens, f.OutputTokens = u.InputTokens(), u.OutputTokens()
	if rate := map[string]string{"flat": "0.01", "half": "0.005"}[f.Model]; rate != "" {
		tokens := money.NewDecimal(f.InputTokens + f.OutputTokens)
		cost := money.Price(tokens, decimalOf(rate))
		f.Costing = &pricing.Costing{Total: cost, Lines: []pricing.Line{{Meter: usage.Output, Quantity: tokens, Rate: decimalOf(rate), CostUSD: cost}}}
	}
	return f
}

// fromKafka books usage that never asked and names a reservation; "" for none.
func (b *books) fromKafka(event, reservation, root string, tokens int64) ledger.Decision {
	at := b.d.clock.now()
	return b.book(b.price(ledger.Facts{Message: ledger.External, Tenant: b.tenant, Source: "app", EventID: event, ContentHash: [32]byte{byte(tokens)}, EventTime: at,
		RecordedAt: at, Location: time.UTC, Provider: "openai", Model: "flat", ReservationID: reservation, Lineage: ledger.Lineage{RootExecutionID: root},
		Meters: usage.Meters{usage.Output: money.NewDecimal(tokens)}}))
}

// records are a range of the journal, as the broker delivers it.
func (b *books) records(from, to int) []bus.Record {
	b.d.t.Helper()
	var out []bus.Record
	for i, e := range b.entries[from:to] {
		r, err := ledgercodec.Record(e)
		b.d.must(err)
		r.Partition, r.Offset = 0, b.base+int64(from+i)
		out = append(out, r)
	}
	return out
}

// newReader is a journal reader that has just been assigned the partition, warmed by what came before.
func (b *books) newReader(read int) *journalReader {
	r := &journalReader{s: b.d.svc, filters: map[int32]*journal.Filter{0: journal.NewFilter()}}
	for i, e := range b.entries[:read] {
		r.filters[0].Seen(e.ID, b.base+int64(i), e.RecordedAt)
	}
	return r
}

func (b *books) read(r *journalReader, records []bus.Record) error {
	return r.handle(context.Background(), bus.NewClaim(topics.LedgerEntries, 0, 1, nil), records)
}

// totals are the sums of external usage by window, as of the end of the journal.
func (b *books) totals() map[string]int64 {
	sums := map[string]int64{}
	for _, e := range b.entries {
		sums[fmt.Sprint("minute ", e.Windows.Minute)] += int64(e.External)
		sums[fmt.Sprint("day ", e.Windows.Day)] += int64(e.External)
		sums[fmt.Sprint("month ", e.Windows.Month)] += int64(e.External)
		if root := e.Lineage.RootExecutionID; root != "" {
			sums["root "+root] += int64(e.External)
		}
	}
	return sums
}

// publish gives the window reader all totals, in the order of their windows.
func (b *books) publish() map[string]int64 {
	b.d.t.Helper()
	sums := b.totals()
	var records []bus.Record
	for _, name := range sortedKeys(sums) {
		w := &weirv1.WindowTotal{TenantId: b.tenant, Version: b.base + int64(len(b.entries)), ExternalNanos: sums[name], ScopeKind: weirv1.ScopeKind_SCOPE_KIND_TENANT}
		var kind, window string
		_, err := fmt.Sscan(name, &kind, &window)
		b.d.must(err)
		switch kind {
		case "minute":
			w.Kind = weirv1.WindowKind_WINDOW_KIND_MINUTE
		case "day":
			w.Kind = weirv1.WindowKind_WINDOW_KIND_DAY
		case "month":
			w.Kind = weirv1.WindowKind_WINDOW_KIND_MONTH
		default:
			w.ScopeKind, w.ScopeId, w.Kind = weirv1.ScopeKind_SCOPE_KIND_EXECUTION, window, weirv1.WindowKind_WINDOW_KIND_EXECUTION
		}
		if kind != "root" {
			_, err := fmt.Sscan(window, &w.Window)
			b.d.must(err)
		}
		value, err := proto.Marshal(w)
		b.d.must(err)
		records = append(records, bus.NewRecord(topics.BudgetWindows, b.tenant, []byte(b.tenant+name), value))
	}
	b.d.must(b.d.svc.handleWindows(context.Background(), bus.NewClaim(topics.BudgetWindows, 0, 1, nil), records))
	return sums
}
