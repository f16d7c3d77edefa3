package admission

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// A reservation without a price is refused, or under `unknown_price: dearest` held at the dearest rates of its provider
// (docs/reference/tenants.md). That is a hold and no price: whatever ends the reservation is priced by its own rates, and as long as
// there are none it is unpriced and keeps what was held.

// flagDearestRate says in the answer to a reservation that it is held so.
const flagDearestRate = "dearest_rate"

// dearest is what is held for an estimate that has no price, for the reason why; false where the contract refuses it, or
// where no model of the provider has rates for it.
func (s *Service) dearest(k *tenant.Contract, provider string, e pricing.Estimate, now time.Time, why error) (money.USD, bool) {
	if !k.HoldsUnpriced() || !unpriced(why) {
		return money.USD{}, false
	}
	usd, err := s.catalogs.prices.Book().Dearest(provider, now, e)
	if err != nil {
		return money.USD{}, false
	}
	s.metrics.dearest.Inc()
	return usd, true
}

// costOf is what an estimate of a reserved call costs at the prices of when it was reserved; where it is held without one,
// at the dearest rates until it has a price.
func costOf(book *pricing.Book, c call, at time.Time, e pricing.Estimate) (money.USD, error) {
	v, _, err := book.At(c.Provider, c.Model, at)
	if err == nil {
		var costing pricing.Costing
		if costing, err = pricing.EstimateCost(v, e, pricing.Options{}); err == nil {
			return costing.Total, nil
		}
	}
	if c.Dearest && unpriced(err) {
		return book.Dearest(c.Provider, at, e)
	}
	return money.USD{}, err
}
