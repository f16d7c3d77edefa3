package pricing_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

func TestDearest(t *testing.T) {
	b := sampleBook(t)
	for name, c := range map[string]struct {
		provider string
		e        pricing.Estimate
		want     string
	}{
		"anthropic, claude-opus-4-1's both": {"anthropic", pricing.Estimate{InputTokens: 1_000_000, MaxOutputTokens: 1}, "15.000075"},
		"dashscope":                         {"dashscope", pricing.Estimate{MaxOutputTokens: 1_000_000}, "5"},
		"nothing":                           {"anthropic", pricing.Estimate{}, "0"},
	} {
		if got, err := b.Dearest(c.provider, now(), c.e); err != nil || got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		provider string
		e        pricing.Estimate
	}{
		"a provider without prices":  {"nobody", pricing.Estimate{}},
		"a meter that nobody has":    {"anthropic", pricing.Estimate{Meters: usage.Meters{usage.OCRCredits: dec(t, "1")}}},
		"a meter beside a known one": {"anthropic", pricing.Estimate{InputTokens: 5, Meters: usage.Meters{usage.OCRCredits: dec(t, "1")}}},
	} {
		if got, err := b.Dearest(c.provider, now(), c.e); !errors.As(err, new(*pricing.UnpricedError)) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := b.Dearest("anthropic", now(), pricing.Estimate{InputTokens: -1}); !errors.Is(err, usage.ErrNegative) {
		t.Error(err)
	}
}

// Each meter is taken where it is dearest, though no single model has both rates.
func TestDearestIsPerMeter(t *testing.T) {
	row := func(model string, rates ...pricing.Rate) pricing.Version {
		v, err := pricing.Version{Provider: "p", Model: model, Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), Source: "test", Rates: rates}.Seal()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	b := bookOf(t,
		row("in", pricing.Rate{Meter: usage.Input, USDPerUnit: dec(t, "3")}, pricing.Rate{Meter: usage.Output, USDPerUnit: dec(t, "1")}),
		row("out", pricing.Rate{Meter: usage.Input, USDPerUnit: dec(t, "1")}, pricing.Rate{Meter: usage.Output, USDPerUnit: dec(t, "5")}),
		row("long", pricing.Rate{Meter: usage.Input, USDPerUnit: dec(t, "2")}, pricing.Rate{Meter: usage.Input, AboveTokens: 100, USDPerUnit: dec(t, "4")}),
		row("thinks", pricing.Rate{Meter: usage.Reasoning, USDPerUnit: dec(t, "6")}))
	for in, want := range map[int64]string{10: "36", 101: "410"} {
		if got, err := b.Dearest("p", now(), pricing.Estimate{InputTokens: in, MaxOutputTokens: 1}); err != nil || got.String() != want {
			t.Errorf("%d tokens: %s, %v; want %s", in, got, err, want)
		}
	}
}

// Goal: a hold at the dearest rates is never below what the call costs by whichever model of the provider it turns out to be.
func TestDearestIsAnUpperBound(t *testing.T) {
	b := sampleBook(t)
	histories := b.Histories()
	rapid.Check(t, func(t *rapid.T) {
		h := histories[rapid.IntRange(0, len(histories)-1).Draw(t, "model")]
		e := pricing.Estimate{InputTokens: rapid.Int64Range(0, 1_000_000).Draw(t, "in"), MaxOutputTokens: rapid.Int64Range(0, 100_000).Draw(t, "out")}
		v, ok := h.At(now())
		if !ok {
			return
		}
		own, err := pricing.EstimateCost(v, e, pricing.Options{})
		if err != nil {
			return // it does not do what e asks for
		}
		if dearest, err := b.Dearest(h.Provider, now(), e); err != nil || dearest.Cmp(own.Total) < 0 {
			t.Errorf("%s %s costs %s, the dearest %s, %v", h.Provider, h.Model, own.Total, dearest, err)
		}
	})
}
