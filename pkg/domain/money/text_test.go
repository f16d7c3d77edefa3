package money

import (
	"math"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// Goal: nano-dollars are written in dollars as the dollars are.
func TestNanoInDollars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1_000_000_000_000, 1_000_000_000_000), rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64})).Draw(t, "n")
		if got, want := string(Nano(n).AppendUSD(nil)), Nano(n).USD().String(); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	})
}

// Goal: what is said to be readable is read, and nothing else.
func TestReadable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecimal(t)
		if _, err := ParseUSD(d.String()); (err == nil) != (USD{of(d)}).Readable() {
			t.Errorf("%v dollars: %v", d, err)
		}
		if _, err := ParseDecimal(d.String()); (err == nil) != (Decimal{of(d)}).Readable() {
			t.Errorf("%v: %v", d, err)
		}
	})
}

// Goal: so it is with reading: the same number in the same form, or no number either way.
func FuzzParseSmall(f *testing.F) {
	for _, s := range []string{"0", "00", "0.0", "900", "00.5", "0.00525", "1.50", ".5", "5.", "1.2.3", "-1", "1e3", "123456789012345678", "1234567890.1234567"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseSmall(s)
		if !ok {
			return
		}
		want, err := parseAny(s)
		if err != nil || got != want {
			t.Errorf("%q is %v, not %v, %v", s, got, want, err)
		}
	})
}

// Goal: so it is with markups.
func TestShortMarkupIsTheLongOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecimal(t)
		text := decimal.New(rapid.Int64Range(-100, 100_000).Draw(t, "percent"), -rapid.Int32Range(0, 9).Draw(t, "digits")).String()
		p, err := ParsePercent(text)
		if err != nil {
			t.Fatal(err)
		}
		factor := p.decimal().Shift(-2).Add(decimal.NewFromInt(1))
		if got, want := ApplyMarkup(USD{of(d)}, p), d.Mul(factor).RoundBank(Scale); !got.decimal().Equal(want) || got.String() != want.String() {
			t.Errorf("%v with %s %% is %s, not %s", d, text, got, want)
		}
	})
}

func BenchmarkMarkup(b *testing.B) {
	p, _ := ParsePercent("10")
	b.ReportAllocs()
	for b.Loop() {
		_ = ApplyMarkup(Nano(1_125_899_906_842_624).USD(), p)
	}
}

func BenchmarkNanoText(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = Nano(1_125_899_900_000_000).USD().String()
	}
}

func BenchmarkCeilNano(b *testing.B) {
	a, _ := ParseUSD("0.0052512345678")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CeilNano(a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseUSD("0.00525"); err != nil {
			b.Fatal(err)
		}
	}
}
