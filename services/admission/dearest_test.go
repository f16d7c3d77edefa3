package admission

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// twoRates are two models of which neither has both of the dearest rates: a hold is at 3 and 5 cents.
func twoRates() []pricing.Version {
	version := func(name, in, out string) pricing.Version {
		v, _ := pricing.Version{Provider: "openai", Model: name, Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), Source: "test",
			Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: number(in)}, {Meter: usage.Output, USDPerUnit: number(out)}}}.Seal()
		return v
	}
	return []pricing.Version{version("reads", "0.03", "0.01"), version("writes", "0.01", "0.05")}
}

// Goal: what has no price is refused, or held at its provider's dearest rates where the contract says so; a provider
// without any rate for it is refused in either case.
func TestUnknownPricePolicy(t *testing.T) {
	for _, c := range []struct {
		name            string
		policy          tenant.UnknownPrice
		provider, model string
		estimate        quantities
		held            string // dollars, "" where it is refused
		code            admit.Code
	}{
		{"refused by default", "", "openai", "new", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "", admit.UnknownPrice},
		{"refused", tenant.UnknownPriceRefuse, "openai", "new", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "", admit.UnknownPrice},
		{"held", tenant.UnknownPriceDearest, "openai", "new", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "1.3", ""},
		{"its maximum is not known", tenant.UnknownPriceDearest, "openai", "new", quantities{"input_tokens": "10"}, "", admit.InvalidArgument},
		{"another provider", tenant.UnknownPriceDearest, "nobody", "new", quantities{"input_tokens": "10", "max_output_tokens": "20"}, "", admit.UnknownPrice},
		{"a meter that nobody rates", tenant.UnknownPriceDearest, "openai", "new", quantities{"max_output_tokens": "1", "search_units": "1"}, "", admit.UnknownPrice},
		{"a known model, such a meter", tenant.UnknownPriceDearest, "openai", "reads", quantities{"max_output_tokens": "1", "search_units": "1"}, "", admit.UnknownPrice},
	} {
		s := pricedService(t, twoRates()...)
		k := roomy()
		k.UnknownPrice = c.policy
		q := prepared{now: time.Now()}
		err := s.quote(&caller{tenant: "acme", contract: k}, &reserveRequest{Provider: c.provider, Model: c.model, Estimate: c.estimate}, &identity.Execution{}, &q)
		if c.held == "" {
			if p, ok := err.(*Problem); !ok || p.Code != c.code {
				t.Errorf("%s: %+v, %v", c.name, q, err)
			}
			continue
		}
		if err != nil || q.request.Estimate.Nanos.USD().String() != c.held || !q.asked.Dearest || q.asked.PriceVersion != "" {
			t.Errorf("%s: %+v, %v", c.name, q, err)
		}
	}
	s := pricedService(t, twoRates()...)
	k := roomy()
	k.UnknownPrice = tenant.UnknownPriceDearest
	q := prepared{now: time.Now()}
	err := s.quote(&caller{tenant: "acme", contract: k}, &reserveRequest{Provider: "openai", Model: "reads", Estimate: quantities{"input_tokens": "10", "max_output_tokens": "20"}},
		&identity.Execution{}, &q)
	if err != nil || q.asked.Dearest || q.request.Estimate.Nanos.USD().String() != "0.5" || q.asked.PriceVersion == "" {
		t.Errorf("a model with a price is held at its own: %+v, %v", q, err)
	}
}

// A model that is stopped by the price book's name of its provider is stopped without a price of its own, too.
func TestKillsReachWhatHasNoPrice(t *testing.T) {
	s := pricedService(t)
	s.kills.known.Merge(admit.Kill{Scope: admit.KillProvider("bedrock_converse"), Version: 1, On: true})
	if s.killed("acme", "aws.bedrock", "new") == nil {
		t.Error("admitted")
	}
}

// Goal: what ends a reservation that was held without a price is charged by its own price or not at all, never by the rates
// it was held at. Method: each way to end it, with and without a price that came meanwhile.
func TestEndsOfADearestHold(t *testing.T) {
	held := &subject{tenant: "acme", id: "r1", reservedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), epoch: 7, direct: true,
		held: admit.Estimate{Nanos: 1_300_000_000, InputTokens: 10, OutputTokens: 20},
		call: call{Provider: "openai", Model: "new", EstimateUSD: dollars("1.3"), Dearest: true,
			Meters: map[string]money.Decimal{"input_tokens": number("10"), "output_tokens": number("20")}}}
	without, with := pricedService(t, twoRates()...), pricedService(t, append(twoRates(), model("new", "1", 0, 0))...)
	stated, none := settleRequest{Meters: map[string]json.Number{"output_tokens": "5"}}, settleRequest{Status: statusPartial}
	named := settleRequest{Status: statusPartial, Model: "writes"}
	for _, c := range []struct {
		name string
		svc  *Service
		req  settleRequest
		own  money.Nano
		cost string // "" is unpriced
	}{
		{"usage, no price", without, stated, 1_300_000_000, ""},
		{"usage, a price by now", with, stated, 50_000_000, "0.05"},
		{"no usage, no price", without, none, 1_300_000_000, ""},
		{"no usage, a price by now", with, none, 300_000_000, "0.3"},
		{"no usage, another model named", without, named, 1_100_000_000, "1.1"},
		{"failed", without, settleRequest{Status: statusFailed}, 0, "0"},
	} {
		got, p := chargeFor(&c.req, held, c.svc.catalogs.prices.Book(), roomy())
		if p != nil || got.own.Nanos != c.own || (got.raw == nil) != (c.cost == "") || got.raw != nil && got.raw.String() != c.cost || got.overage.Sign() != 0 {
			t.Errorf("%s: %+v, %v", c.name, got, p)
			continue
		}
		if slices.Contains(got.flags, "unpriced") != (c.cost == "") {
			t.Errorf("%s: flags %v", c.name, got.flags)
		}
		if ev := got.event(&c.req, held, "id", usageevent.OutcomeSettled, "direct", got.own.Nanos, held.reservedAt); ev.Data.Reservation.EstimateUSD != nil {
			t.Errorf("%s: the event says what was held as if it were a price", c.name)
		}
	}
	if ev := held.unsettledEvent("direct", held.reservedAt); ev.Data.Reservation.EstimateUSD != nil || ev.Data.Reservation.OwnNanos != 1_300_000_000 {
		t.Errorf("expired: %+v", ev.Data.Reservation)
	}

	got := *held
	got.held.OutputTokens = 30
	if without.grow(&got); got.call.Meters["output_tokens"].String() != "30" || got.call.EstimateUSD.String() != "1.8" {
		t.Errorf("grown: %+v", got.call)
	}
	if so, err := usedSoFar(without.catalogs.prices.Book(), roomy(), held, 30); err != nil || so.Nanos != 1_800_000_000 {
		t.Errorf("used so far: %+v, %v", so, err)
	}
	if so, err := usedSoFar(with.catalogs.prices.Book(), roomy(), held, 30); err != nil || so.Nanos != 400_000_000 {
		t.Errorf("used so far, a price by now: %+v, %v", so, err)
	}
}
