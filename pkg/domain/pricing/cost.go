package pricing

import (
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
	c := Costing{PriceVersion: v.ID, Lines: make([]Line, 0, len(u.Meters))}
	flags, err := v.price(&u, o, c.add)
	if err != nil {
		return Costing{}, err
	}
	c.Flags = append(c.Flags, flags...)
	slices.Sort(c.Flags)
	slices.SortStableFunc(c.Lines, func(a, b Line) int { return strings.Compare(string(a.Meter), string(b.Meter)) })
	return c, nil
}

// Totals are the total of Cost at no options, and the same with a markup on
// each of its lines, as the ledger adds them up: what a settle needs of it,
// which is less than the lines take to make. Errors are those of Cost.
func Totals(v *Version, u *usage.Usage, markup money.Percent) (list, billed money.USD, err error) {
	_, err = v.price(u, Options{}, func(_ usage.Meter, quantity money.Decimal, p picked) {
		line := money.Price(quantity, p.rate)
		list = list.Add(line)
		billed = billed.Add(money.ApplyMarkup(line, markup))
	})
	if err != nil {
		return money.USD{}, money.USD{}, err
	}
	return list, billed, nil
}

// price gives take each line of u, the bands of a meter in their order, with
// its rate, and returns the flags of what is about all of them. After an error
// take may have had some.
func (v *Version) price(u *usage.Usage, o Options, take func(usage.Meter, money.Decimal, picked)) (flags []string, err error) {
	if u.Missing() {
		return nil, ErrNoUsage
	}
	var context int64
	if u.ContextTokens != nil {
		context = *u.ContextTokens
	} else {
		context = u.InputTokens()
	}
	tier := serviceTier(u, o)
	times, flags := v.multipliers(first(u.InferenceGeo, o.Geo), first(u.Speed, o.Speed))
	var unpriced []usage.Meter
	for m, q := range u.Meters {
		var one [1]band
		for _, b := range v.bands(one[:0], m, q, context) {
			p, ok := v.pick(m, tier, b.context)
			if !ok {
				unpriced = append(unpriced, m)
				break
			}
			if times.names != "" && m.Unit() == usage.Tokens {
				p.rate, p.basis = p.rate.Mul(times.product), listed(p.basis, times.names)
			}
			take(m, b.quantity, p)
		}
	}
	slices.Sort(unpriced)
	return flags, v.unpriced(unpriced)
}

// unpriced is the error for meters that have no rate; nil for none.
func (v *Version) unpriced(meters []usage.Meter) error {
	if len(meters) == 0 {
		return nil
	}
	return &UnpricedError{Provider: v.Provider, Model: v.Model, Meters: meters}
}

func (c *Costing) add(m usage.Meter, quantity money.Decimal, p picked) {
	line := Line{Meter: m, Quantity: quantity, Rate: p.rate, CostUSD: money.Price(quantity, p.rate), Basis: p.basis}
	c.Lines = append(c.Lines, line)
	c.Total = c.Total.Add(line.CostUSD)
	if p.flagged && !slices.Contains(c.Flags, FlagMissingRate) {
		c.Flags = append(c.Flags, FlagMissingRate)
	}
}

func serviceTier(u *usage.Usage, o Options) string {
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
