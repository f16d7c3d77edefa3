package pricing

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Options say what the response itself does not. Where the response reports a
// tier, a place or a speed, that is what was used and what is priced.
type Options struct {
	Batch       bool
	ServiceTier string // standard, flex, priority, …
	Geo         string // "us", "eu": where the call was computed
	Speed       string // "fast"
}

// Line is the cost of one meter (of one band of it, if graduated).
type Line struct {
	Meter    usage.Meter
	Quantity money.Decimal
	Rate     money.Decimal // dollars per unit as applied: after halving and multipliers
	CostUSD  money.USD     // Quantity × Rate, rounded once
	Basis    string        // how Rate was come by; "" is the meter's own rate
}

// Costing is a usage priced by one version.
type Costing struct {
	PriceVersion string // Version.ID
	Lines        []Line // by meter name
	Total        money.USD
	Flags        []string // sorted
}

// Cost prices u by v at list price. It is exact, never negative, and either
// complete or an error: *UnpricedError naming every meter without a rate, or
// ErrNoUsage.
func Cost(v Version, u usage.Usage, o Options) (Costing, error) {
	if u.Missing() {
		return Costing{}, ErrNoUsage
	}
	var context int64
	if u.ContextTokens != nil {
		context = *u.ContextTokens
	} else {
		context = u.InputTokens()
	}
	tier := serviceTier(u, o)
	times, flags := v.multipliers(first(u.InferenceGeo, o.Geo), first(u.Speed, o.Speed))
	c := Costing{PriceVersion: v.ID, Flags: flags, Lines: make([]Line, 0, len(u.Meters))}
	var unpriced []usage.Meter
	var room [8]usage.Meter // enough for nearly every call, without the heap
	meters := slices.AppendSeq(room[:0], maps.Keys(u.Meters))
	slices.Sort(meters)
	for _, m := range meters {
		var one [1]band
		for _, b := range v.bands(one[:0], m, u.Meters[m], context) {
			p, ok := v.pick(m, tier, b.context)
			if !ok {
				unpriced = append(unpriced, m)
				break
			}
			if times.names != "" && m.Unit() == usage.Tokens {
				p.rate, p.basis = p.rate.Mul(times.product), listed(p.basis, times.names)
			}
			c.add(m, b.quantity, p)
		}
	}
	if len(unpriced) > 0 {
		return Costing{}, &UnpricedError{Provider: v.Provider, Model: v.Model, Meters: unpriced}
	}
	slices.Sort(c.Flags)
	return c, nil
}

func (c *Costing) add(m usage.Meter, quantity money.Decimal, p picked) {
	line := Line{Meter: m, Quantity: quantity, Rate: p.rate, CostUSD: money.Price(quantity, p.rate), Basis: p.basis}
	c.Lines = append(c.Lines, line)
	c.Total = c.Total.Add(line.CostUSD)
	if p.flagged && !slices.Contains(c.Flags, FlagMissingRate) {
		c.Flags = append(c.Flags, FlagMissingRate)
	}
}

func serviceTier(u usage.Usage, o Options) string {
	if u.Batch || o.Batch {
		return TierBatch
	}
	switch t := strings.ToLower(first(u.ServiceTier, o.ServiceTier)); t {
	case "standard", "default", "auto":
		return ""
	case "fast":
		return TierPriority
	case "batches":
		return TierBatch
	default:
		return t
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// band is a part of a meter's quantity and the prompt length that selects its
// rate.
type band struct {
	quantity money.Decimal
	context  int64
}

// bands is one band at the whole prompt's length, or with a graduated rule
// the meter's own quantity split at the thresholds. They are appended to out.
func (v *Version) bands(out []band, m usage.Meter, quantity money.Decimal, context int64) []band {
	if !v.Tier.Graduated || m.Unit() != usage.Tokens {
		return append(out, band{quantity, context})
	}
	total, ok := quantity.Int64()
	if !ok {
		return append(out, band{quantity, context})
	}
	low := int64(0)
	for _, edge := range append(v.edges(), total) {
		if high := min(edge, total); high > low {
			out = append(out, band{money.NewDecimal(high - low), low + 1})
			low = high
		}
	}
	return out
}

// edges lists, in order, the last token of each band but the last one.
func (v *Version) edges() []int64 {
	var edges []int64
	for _, r := range v.Rates {
		edge := r.AboveTokens
		if v.Tier.Inclusive {
			edge--
		}
		if edge > 0 && !slices.Contains(edges, edge) {
			edges = append(edges, edge)
		}
	}
	slices.Sort(edges)
	return edges
}
