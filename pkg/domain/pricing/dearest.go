package pricing

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Dearest prices each meter of e at the dearest that it costs by any model of a
// provider in force at an instant: what is held for a call without a price of
// its own, where policy is to hold rather than to refuse. It is at least what e
// costs by any of these models, at the standard tier; as in EstimateCost, output
// may be reasoning. It is no price: nobody is billed by it, so it has no lines
// and no version. The error is an *UnpricedError where no model of the provider
// has a rate for a meter, and usage.ErrNegative for negative counts. It costs
// one lookup for each model and meter.
func (b *Book) Dearest(provider string, at time.Time, e Estimate) (money.USD, error) {
	if e.InputTokens < 0 || e.MaxOutputTokens < 0 {
		return money.USD{}, usage.ErrNegative
	}
	versions := b.inForce(provider, at)
	if len(versions) == 0 {
		return money.USD{}, &UnpricedError{Provider: provider}
	}
	u := e.usage(usage.Output)
	context := u.InputTokens()
	var total money.USD
	var unpriced []usage.Meter
	for _, m := range u.Meters.Sorted() {
		cost, ok := dearest(versions, m, u.Meters[m], context)
		if m == usage.Output {
			if thought, rated := dearest(versions, usage.Reasoning, u.Meters[m], context); rated && thought.Cmp(cost) > 0 {
				cost, ok = thought, true
			}
		}
		if !ok {
			unpriced = append(unpriced, m)
		}
		total = total.Add(cost)
	}
	if len(unpriced) > 0 {
		return money.USD{}, &UnpricedError{Provider: provider, Model: "any", Meters: unpriced}
	}
	return total, nil
}

// inForce lists the versions of all models of a provider at an instant.
func (b *Book) inForce(provider string, at time.Time) []*Version {
	var versions []*Version
	for _, name := range BookNames(provider) {
		for _, h := range b.byProvider[name] {
			if v := h.inForce(at); v != nil {
				versions = append(versions, v)
			}
		}
	}
	return versions
}

// dearest is the highest cost of a quantity of one meter by any of the
// versions, for a prompt of context tokens; false where none has a rate. Where
// one rate holds for all of it, rates are compared and only the highest is
// multiplied: a tenth of the work.
func dearest(versions []*Version, m usage.Meter, quantity money.Decimal, context int64) (money.USD, bool) {
	var highest money.USD
	var rate money.Decimal
	found := false
	for _, v := range versions {
		if v.Tier.Graduated {
			if cost, ok := v.costOf(m, quantity, context); ok {
				highest, found = dearer(highest, cost), true
			}
			continue
		}
		if p, ok := v.pick(m, "", context); ok {
			found = true
			if p.rate.Cmp(rate) > 0 {
				rate = p.rate
			}
		}
	}
	return dearer(highest, money.Price(quantity, rate)), found
}

func dearer(a, b money.USD) money.USD {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// costOf is what a quantity of one meter costs at the standard tier; false
// where a part of it has no rate.
func (v *Version) costOf(m usage.Meter, quantity money.Decimal, context int64) (money.USD, bool) {
	var sum money.USD
	for _, b := range v.bands(nil, m, quantity, context) {
		p, ok := v.pick(m, "", b.context)
		if !ok {
			return money.USD{}, false
		}
		sum = sum.Add(money.Price(b.quantity, p.rate))
	}
	return sum, true
}
