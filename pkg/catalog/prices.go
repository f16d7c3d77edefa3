package catalog

import (
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Prices is the current copy of catalog.prices.v1 as a price book. Safe for concurrent use.
type Prices struct {
	bad  Bad
	mu   sync.Mutex // serialises Apply
	book atomic.Pointer[pricing.Book]
}

// NewPrices is an empty book; feed it with Apply through bus.Follow.
func NewPrices(bad Bad) *Prices {
	p := &Prices{bad: bad}
	p.book.Store(pricing.NewBook())
	return p
}

// Book is the book now; it never changes, a later call may return another.
func (p *Prices) Book() *pricing.Book { return p.book.Load() }

// Apply takes one record of catalog.prices.v1; it never fails. A tombstone leaves the prices: what was billed by them
// must stay explainable.
func (p *Prices) Apply(r bus.Record) error {
	if r.Value == nil {
		return nil
	}
	h, err := DecodePrices(r.Value)
	if err != nil {
		p.bad(r.Topic.Name(), string(r.Key), err)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book.Store(p.book.Load().With(h))
	return nil
}

// PriceKey is the record key of a history.
func PriceKey(h pricing.History) string { return h.Provider + "/" + h.Model }

// EncodePrices is the value of catalog.prices.v1 for a history.
func EncodePrices(h pricing.History) ([]byte, error) {
	m := &weirv1.PriceHistory{Provider: h.Provider, Model: h.Model}
	for _, v := range h.Versions {
		pv := &weirv1.PriceVersion{
			Id: v.ID, EffectiveFrom: timestamppb.New(v.EffectiveFrom), PublishedAt: timestamppb.New(v.PublishedAt),
			Source: v.Source, SourceHash: v.SourceHash, Currency: v.Currency, Mode: v.Mode, Graduated: v.Tier.Graduated,
			Inclusive: v.Tier.Inclusive, MaxInputTokens: v.MaxInputTokens, MaxOutputTokens: v.MaxOutputTokens, RawRow: v.RawRow,
		}
		for _, r := range v.Rates {
			pv.Rates = append(pv.Rates, &weirv1.PriceRate{
				Meter: string(r.Meter), ServiceTier: r.ServiceTier, AboveTokens: r.AboveTokens, UsdPerUnit: r.USDPerUnit.String(),
			})
		}
		for name, factor := range v.Multipliers {
			if pv.Multipliers == nil {
				pv.Multipliers = map[string]string{}
			}
			pv.Multipliers[name] = factor.String()
		}
		m.Versions = append(m.Versions, pv)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode prices of %s: %w", PriceKey(h), err)
	}
	return b, nil
}

// DecodePrices reads a value of catalog.prices.v1. A version whose id is not the hash of its content is refused.
func DecodePrices(value []byte) (pricing.History, error) {
	m := new(weirv1.PriceHistory)
	if err := proto.Unmarshal(value, m); err != nil {
		return pricing.History{}, fmt.Errorf("price history: %w", err)
	}
	h := pricing.History{Provider: m.GetProvider(), Model: m.GetModel()}
	for i, pv := range m.GetVersions() {
		v, err := decodeVersion(m, pv)
		if err == nil {
			h, err = h.Add(v)
		}
		if err != nil {
			return pricing.History{}, fmt.Errorf("prices of %s version %d: %w", PriceKey(h), i, err)
		}
	}
	if len(h.Versions) == 0 {
		return h, fmt.Errorf("price history of %q without versions", PriceKey(h))
	}
	return h, nil
}

func decodeVersion(m *weirv1.PriceHistory, pv *weirv1.PriceVersion) (pricing.Version, error) {
	v := pricing.Version{
		Provider: m.GetProvider(), Model: m.GetModel(), Mode: pv.GetMode(), Currency: pv.GetCurrency(),
		EffectiveFrom: pv.GetEffectiveFrom().AsTime(), PublishedAt: pv.GetPublishedAt().AsTime(), Source: pv.GetSource(),
		SourceHash: pv.GetSourceHash(), Tier: pricing.TierRule{Graduated: pv.GetGraduated(), Inclusive: pv.GetInclusive()},
		MaxInputTokens: pv.GetMaxInputTokens(), MaxOutputTokens: pv.GetMaxOutputTokens(), RawRow: pv.GetRawRow(),
	}
	for _, r := range pv.GetRates() {
		d, err := money.ParseDecimal(r.GetUsdPerUnit())
		if err != nil {
			return v, fmt.Errorf("rate of %s: %w", r.GetMeter(), err)
		}
		v.Rates = append(v.Rates, pricing.Rate{
			Meter: usage.Meter(r.GetMeter()), ServiceTier: r.GetServiceTier(), AboveTokens: r.GetAboveTokens(), USDPerUnit: d,
		})
	}
	for name, text := range pv.GetMultipliers() {
		d, err := money.ParseDecimal(text)
		if err != nil {
			return v, fmt.Errorf("multiplier %s: %w", name, err)
		}
		if v.Multipliers == nil {
			v.Multipliers = map[string]money.Decimal{}
		}
		v.Multipliers[name] = d
	}
	v, err := v.Seal()
	if err != nil {
		return v, err
	}
	if v.ID != pv.GetId() {
		return v, fmt.Errorf("id %s is not the hash of the content (%s)", pv.GetId(), v.ID)
	}
	return v, nil
}
