package costattributor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/usageevent"
	"github.com/weir-project/weir/pkg/usageevent/consumed"
)

// catalogs are the contracts and prices that an event is booked by, as of its own time.
type catalogs struct {
	contract func(tenantID string, at time.Time) (tenant.Contract, bool)
	book     func() *pricing.Book
	zones    *catalog.Zones
}

// facts looks up everything that the entry is computed from. The error is a *reject, a *usageevent.Error, or a machine
// without time zones.
func (c catalogs) facts(v verified, r bus.Record) (ledger.Facts, error) {
	d := v.event.Data
	f := ledger.Facts{
		Message: message(v), Tenant: v.tenant, Source: v.event.Source, EventID: v.event.ID, ResponseID: d.ResponseID, ContentHash: usageevent.ContentHash(v.event),
		EventTime: v.at, RecordedAt: recordedAt(r), At: ledger.Position{Topic: r.Topic.Name(), Partition: r.Partition, Offset: r.Offset},
		Provider: usage.ProviderName(d.Provider), Model: strings.TrimSpace(d.Model), ServiceTier: d.ServiceTier, Status: ledger.Status(d.Status), ErrorCode: d.ErrorCode,
		Lineage: v.lineage, ReservationID: d.ReservationID,
	}
	at := v.at
	if v.signed && d.Reservation != nil {
		f.Hold = hold(*d.Reservation)
		at = d.Reservation.ReservedAt
	}
	contract, ok := c.contract(v.tenant, at)
	if !ok {
		return f, rejected(reasonUnknownTenant, "there is no tenant %.128q", v.tenant)
	}
	var err error
	if f.Location, err = c.zones.Of(&contract); err != nil {
		return f, fmt.Errorf("cost-attributor: %w", err)
	}
	f.CountBilled, f.Markup = contract.Count == tenant.CountBilled, contract.Markup
	f.APIKeyID, f.Scopes = keyOf(v), stamps(v, contract)
	if f.Message == ledger.BreakerTrip {
		return f, nil
	}
	u, err := read(v, &f)
	if err != nil {
		return f, err
	}
	if flag := v.timeFlag(f.RecordedAt); f.Hold == nil && flag != "" {
		f.Flags = slices.Sorted(slices.Values(append(slices.Clone(f.Flags), flag)))
	}
	if err = c.price(u, at, &f); err == nil && f.Hold != nil { // what only the one that granted a model can say
		f.Flags = slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.Flags, d.Reservation.Flags))))
	}
	return f, err
}

func hold(r usageevent.Reservation) *ledger.Hold {
	return &ledger.Hold{ReservedAt: r.ReservedAt, OwnMode: ledger.OwnMode(r.OwnMode), Own: r.OwnNanos, Held: r.HeldNanos, Epoch: r.Epoch, Day: r.Day,
		EstimateUSD: r.EstimateUSD, PriceVersion: r.PriceVersion}
}

// message is which row of the transition table an event is. Only a signed one can be own.
func message(v verified) ledger.Message {
	switch {
	case v.event.Type == usageevent.TypeTermination:
		return ledger.BreakerTrip
	case !v.signed || v.event.Data.Reservation == nil:
		return ledger.External
	}
	switch v.event.Data.Reservation.Outcome {
	case usageevent.OutcomeEstimated:
		return ledger.Estimate
	case usageevent.OutcomeUnsettled:
		return ledger.Expiry
	case usageevent.OutcomeLate:
		return ledger.Late
	}
	return ledger.Settle
}

// read gives the meters: of the estimate, of the provider's usage, or the sender's own. f gets what the usage says.
func read(v verified, f *ledger.Facts) (usage.Usage, error) {
	d := v.event.Data
	if f.Hold == nil { // not believed
		d.Reservation = nil
	}
	u, err := consumed.Usage(d)
	switch {
	case err != nil:
		return u, err
	case d.CacheHit != "":
		f.Status, f.Flags, f.Costing = ledger.Success, []string{ledger.FlagCacheHit}, &pricing.Costing{}
		f.ServiceTier, f.ResponseID = d.ServiceTier, "" // the response is that of the call which filled the cache
		return u, nil
	case d.Usage != nil && f.Message != ledger.Estimate && f.Message != ledger.Expiry:
		f.RawUsage, f.NormaliserVersion = d.Usage, usage.NormaliserVersion
	}
	// A bare usage object and meters say nothing about the tier; the sender may.
	if u.ServiceTier == "" {
		u.ServiceTier = d.ServiceTier
	}
	if f.Status == ledger.Failed { // whoever reports it; the raw usage says what was produced
		u = u.Failed()
	}
	f.Flags, f.Meters, f.InputTokens, f.OutputTokens = u.Flags, u.Meters, u.InputTokens(), u.OutputTokens()
	if usageevent.CheckID("response_id", u.ResponseID) == nil { // the text of a null would make strangers one call
		f.ResponseID = cmp.Or(d.ResponseID, u.ResponseID)
	}
	f.Model, f.ServiceTier = cmp.Or(f.Model, strings.TrimSpace(u.Model)), u.ServiceTier
	return u, nil
}

// price fills in the costing, unless a cache answered. A failed call of which nothing is known used nothing; otherwise what
// has no price stays unpriced, which is not zero.
func (c catalogs) price(u usage.Usage, at time.Time, f *ledger.Facts) error {
	if f.Costing != nil {
		return nil
	}
	if u.Missing() {
		if f.Status == ledger.Failed {
			f.Costing = &pricing.Costing{}
		}
		return nil
	}
	version, flags, err := c.book().At(f.Provider, f.Model, at)
	if err == nil {
		var costing pricing.Costing
		costing, err = pricing.Cost(version, u, pricing.Options{})
		f.Costing = &costing
	}
	if _, unpriced := errors.AsType[*pricing.UnpricedError](err); unpriced {
		f.Costing = nil
		return nil
	}
	if err != nil {
		return rejected(string(usageevent.Malformed), "price: %v", err)
	}
	f.Flags = slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.Flags, flags))))
	return nil
}
