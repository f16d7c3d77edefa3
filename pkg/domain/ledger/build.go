package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Message is what an event says about a reservation; the letters are those of the table in Decide.
type Message string

// The messages. All but External come signed by admission.
const (
	Settle       Message = "settle"      // S: the actual figure, own
	Estimate     Message = "estimate"    // E: a settle without usage, at the estimate, own
	Expiry       Message = "unsettled"   // U: the hold's owner never settled, own
	Late         Message = "late"        // L: the actual figure after the expiry, external
	External     Message = "external"    // K: usage that came straight to Kafka; it may name a reservation
	BreakerTrip  Message = "termination" // the breaker ended an execution
	stageUsage           = "usage"
	stageReverse         = "reversal"
	stageShared          = "reversal-response"
)

// Facts are everything that an entry is computed from.
type Facts struct {
	Message                     Message
	Tenant                      string
	Source, EventID, ResponseID string
	ContentHash                 [sha256.Size]byte
	EventTime, RecordedAt       time.Time
	At                          Position
	// Location is the tenant's calendar; CountBilled says that its plan counts the billed cost.
	Location    *time.Location
	CountBilled bool
	Markup      money.Percent

	Provider, Model, ServiceTier string
	Status                       Status
	ErrorCode                    string
	Flags                        []string
	Meters                       usage.Meters
	InputTokens, OutputTokens    int64
	// Costing is nil when there is no price.
	Costing           *pricing.Costing
	RawUsage          []byte
	NormaliserVersion string

	Lineage  Lineage
	APIKeyID string
	// Scopes are at most one of each kind, and branches of the execution.
	Scopes        []Stamp
	ReservationID string
	// Hold is nil unless admission signed the event.
	Hold *Hold
}

// Hold is what admission said about the reservation.
type Hold struct {
	ReservedAt   time.Time
	OwnMode      OwnMode
	Own, Held    money.Nano
	Epoch        int64
	Day          int32 // YYYYMMDD, in which Redis counts it; 0: that of the contract's calendar
	EstimateUSD  *money.USD
	PriceVersion string
}

// Candidate is the entry that an event makes if nothing speaks against it.
type Candidate struct {
	Message Message
	Entry   Entry
	// Each are the kinds of sub-scopes whose name the contract does not know: Decide bounds how many there are.
	Each []window.ScopeKind
}

// NewCandidate builds the primary entry of an event. The error is a cost beyond the bound of a counter (money.ErrRange).
func NewCandidate(f Facts) (Candidate, error) {
	e := Entry{
		ID: EntryID(f.Tenant, f.Source, f.EventID, stageUsage), Kind: Usage, TenantID: f.Tenant,
		EventTime: f.EventTime.UTC(), RecordedAt: f.RecordedAt.UTC(), At: f.At,
		Source: f.Source, EventID: f.EventID, ResponseID: f.ResponseID, ContentHash: f.ContentHash,
		Provider: f.Provider, Model: f.Model, ServiceTier: f.ServiceTier, Status: f.Status, ErrorCode: f.ErrorCode,
		Flags: slices.Clone(f.Flags), InputTokens: f.InputTokens, OutputTokens: f.OutputTokens, Markup: f.Markup,
		Lineage: f.Lineage, ReservationID: f.ReservationID, RawUsage: f.RawUsage, NormaliserVersion: f.NormaliserVersion, APIKeyID: f.APIKeyID,
	}
	switch f.Message {
	case Expiry:
		e.Kind = Unsettled
		e.flag(FlagEstimated)
	case BreakerTrip:
		e.Kind = Termination
	case Estimate:
		e.flag(FlagEstimated)
	}
	if f.Hold != nil {
		e.EventTime, e.ReservedAt, e.Held = f.Hold.ReservedAt.UTC(), f.Hold.ReservedAt.UTC(), f.Hold.Held
	}
	e.Windows = window.KeysAt(e.EventTime, f.Location)
	if f.Hold != nil && f.Hold.Day != 0 { // admission may have known an earlier contract, of another time zone
		e.Windows.Day, e.Windows.Month = f.Hold.Day, f.Hold.Day/100
	}
	e.PostedPeriod = e.Windows.Month
	e.price(f)
	if err := e.count(f); err != nil {
		return Candidate{}, fmt.Errorf("event %s: %w", f.EventID, err)
	}
	c := Candidate{Message: f.Message, Entry: e}
	c.stamp(f.Scopes)
	return c, nil
}

// price fills in lines and totals: from the costing, from the hold's own estimate, or as quantities without a price.
func (e *Entry) price(f Facts) {
	switch {
	case f.Message == BreakerTrip:
		e.Raw, e.Billed = new(money.USD), new(money.USD)
	case (f.Message == Estimate || f.Message == Expiry) && f.Hold != nil && f.Hold.EstimateUSD != nil:
		e.PriceVersion = f.Hold.PriceVersion
		lines := []pricing.Line{{Meter: MeterEstimate, Quantity: money.NewDecimal(1), CostUSD: *f.Hold.EstimateUSD}}
		if f.Costing != nil && f.Costing.Total.Cmp(*f.Hold.EstimateUSD) == 0 {
			lines = f.Costing.Lines
		} else {
			lines[0].Rate = rateOf(*f.Hold.EstimateUSD)
		}
		e.priced(lines, f.Markup)
	case f.Costing != nil:
		e.PriceVersion = f.Costing.PriceVersion
		for _, flag := range f.Costing.Flags {
			e.flag(flag)
		}
		e.priced(f.Costing.Lines, f.Markup)
	default:
		e.flag(FlagUnpriced)
		for _, m := range f.Meters.Sorted() {
			e.Lines = append(e.Lines, Line{Meter: string(m), Quantity: f.Meters[m]})
		}
	}
}

// rateOf is an amount as the rate of one unit. An amount always reads back as a decimal.
func rateOf(a money.USD) money.Decimal {
	d, _ := money.ParseDecimal(a.String())
	return d
}

// priced applies the markup to each line and adds them up: the parts are the whole.
func (e *Entry) priced(lines []pricing.Line, markup money.Percent) {
	var raw, billed money.USD
	for _, l := range lines {
		rate, cost, bill := l.Rate, l.CostUSD, money.ApplyMarkup(l.CostUSD, markup)
		e.Lines = append(e.Lines, Line{Meter: string(l.Meter), Quantity: l.Quantity, Rate: &rate, Raw: &cost, Billed: &bill})
		raw, billed = raw.Add(cost), billed.Add(bill)
	}
	e.Raw, e.Billed = &raw, &billed
}

// count splits the counted cost into own and external. What admission applied stands; the rest is external.
func (e *Entry) count(f Facts) error {
	own := f.Hold != nil && (f.Message == Settle || f.Message == Estimate || f.Message == Expiry)
	if own {
		e.OwnMode, e.Own, e.Epoch = f.Hold.OwnMode, f.Hold.Own, f.Hold.Epoch
		if f.Message == Expiry {
			e.Own = f.Hold.Held
		}
		if e.OwnMode == "" {
			e.OwnMode = Journal // a signed settle is own by definition; the reader adds what no script did
		}
	}
	if !e.Priced() { // what was held is kept; nothing else is known
		if f.Hold != nil && e.Own == 0 { // of a late figure, or of a settle that had a price, of nothing, when admission looked
			e.External = f.Hold.Held
		}
		return nil
	}
	counted := *e.Raw
	if f.CountBilled {
		counted = *e.Billed
	}
	total, err := money.CeilNano(counted)
	if err != nil {
		return fmt.Errorf("counted cost: %w", err)
	}
	e.External, err = total.Add(-e.Own)
	return err
}

func (e *Entry) flag(f string) {
	if at, found := slices.BinarySearch(e.Flags, f); !found {
		e.Flags = slices.Insert(e.Flags, at, f)
	}
}
