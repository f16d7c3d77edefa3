package pricing

import (
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Estimate is what a call may use at most.
type Estimate struct {
	InputTokens     int64 // whole prompt, taken as uncached
	MaxOutputTokens int64 // see Version.OutputBound
	// Meters the caller expects besides. Parts of the prompt that it knows
	// (cache writes, audio) belong here and not in InputTokens.
	Meters usage.Meters
}

// EstimateCost is the price of a hold: the prompt at the tier which its whole
// length selects and all output at the dearer of text and reasoning. Errors
// are those of Cost, and usage.ErrNegative for negative counts.
func EstimateCost(v Version, e Estimate, o Options) (Costing, error) {
	if e.InputTokens < 0 || e.MaxOutputTokens < 0 {
		return Costing{}, usage.ErrNegative
	}
	if o == (Options{}) && v.ratesTokensAlone(e) {
		return v.costTokens(e)
	}
	plain, err := Cost(v, e.usage(usage.Output), o)
	if err != nil || e.MaxOutputTokens == 0 || !v.ratesReasoning() {
		return plain, err
	}
	thinking, err := Cost(v, e.usage(usage.Reasoning), o)
	if err == nil && thinking.Total.Cmp(plain.Total) > 0 {
		return thinking, nil
	}
	return plain, nil
}

// EstimateTotal is the total of EstimateCost at no options: what a hold needs
// of it, which is less than the lines take to make.
func EstimateTotal(v *Version, e Estimate) (money.USD, error) {
	if e.InputTokens < 0 || e.MaxOutputTokens < 0 || !v.ratesTokensAlone(e) {
		c, err := EstimateCost(*v, e, Options{})
		return c.Total, err
	}
	var total money.USD
	if err := v.priceTokens(e, func(_ usage.Meter, n money.Decimal, p picked) { total = total.Add(money.Price(n, p.rate)) }); err != nil {
		return money.USD{}, err
	}
	return total, nil
}

// ratesTokensAlone reports whether a whole estimate has one rate for its
// input and one for its output, and nothing else.
func (v *Version) ratesTokensAlone(e Estimate) bool {
	return len(e.Meters) == 0 && !v.Tier.Graduated && !v.ratesReasoning()
}

// costTokens is Cost of tokens alone, which nearly all estimates are of, where
// a whole request has one rate: without the usage that Cost reads.
func (v *Version) costTokens(e Estimate) (Costing, error) {
	c := Costing{PriceVersion: v.ID, Lines: make([]Line, 0, 2)}
	if err := v.priceTokens(e, c.add); err != nil {
		return Costing{}, err
	}
	return c, nil
}

// priceTokens gives take the tokens of an estimate with their rates. The error
// is an *UnpricedError.
func (v *Version) priceTokens(e Estimate, take func(usage.Meter, money.Decimal, picked)) error {
	var unpriced []usage.Meter
	for _, of := range [...]struct {
		meter usage.Meter
		n     int64
	}{{usage.Input, e.InputTokens}, {usage.Output, e.MaxOutputTokens}} {
		if of.n == 0 {
			continue
		}
		if p, ok := v.pick(of.meter, "", e.InputTokens); ok {
			take(of.meter, money.NewDecimal(of.n), p)
		} else {
			unpriced = append(unpriced, of.meter)
		}
	}
	return v.unpriced(unpriced)
}

// ratesReasoning reports whether reasoning has a rate of its own; without one it costs what text does.
func (v *Version) ratesReasoning() bool {
	for i := range v.Rates {
		if v.Rates[i].Meter == usage.Reasoning {
			return true
		}
	}
	return false
}

func (e Estimate) usage(output usage.Meter) usage.Usage {
	m := make(usage.Meters, len(e.Meters)+2)
	for name, q := range e.Meters {
		m[name] = q
	}
	m.Add(usage.Input, e.InputTokens)
	m.Add(output, e.MaxOutputTokens)
	return usage.FromMeters(m)
}
