package money

import (
	"math"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// anyDecimal has all kinds of lengths and exponents, with zeros at the end.
func anyDecimal(t *rapid.T) decimal.Decimal {
	d := decimal.New(rapid.Int64().Draw(t, "coefficient"), rapid.Int32Range(-25, 5).Draw(t, "exponent"))
	for range rapid.IntRange(0, 4).Draw(t, "factors") {
		d = d.Mul(decimal.New(rapid.SampledFrom([]int64{10, 100, 1000, 7, 0, -1}).Draw(t, "factor"), -1))
	}
	return d
}

// Goal: the short way of writing, shortening and rounding a number says what the long way says.
func TestShortWayIsTheLongWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecimal(t)
		if got := string(appendDecimal(nil, d)); got != d.String() {
			t.Errorf("%v is written %s", d, got)
		}
		if got := normal(d); !got.Equal(d) || got.Exponent() > 0 || got.Exponent() < 0 && got.Coefficient().String()[len(got.Coefficient().String())-1] == '0' && !got.IsZero() {
			t.Errorf("%v is normal as %v e %d", d, got, got.Exponent())
		}
		other := anyDecimal(t)
		if got, want := Price(Decimal{d}, Decimal{other}), d.Mul(other).RoundBank(Scale); !got.d.Equal(want) || got.String() != want.String() {
			t.Errorf("%v × %v is %s, not %s", d, other, got, want)
		}
		if got, want := (USD{d}).Add(USD{other}), d.Add(other); !got.d.Equal(want) || got.d.Exponent() != want.Exponent() {
			t.Errorf("%v + %v is %v, not %v", d, other, got.d, want)
		}
		if got, want := (Decimal{d}).Add(Decimal{other}), d.Add(other); !got.d.Equal(want) || got.d.Exponent() != want.Exponent() {
			t.Errorf("%v + %v is %v, not %v", d, other, got.d, want)
		}
		if n, whole := (Decimal{d}).Int64(); whole != (d.IsInteger() && d.BigInt().IsInt64()) || whole && n != d.BigInt().Int64() {
			t.Errorf("%v is the integer %d: %v", d, n, whole)
		}
		if n, ok := ceilSmall(USD{d}); ok && !decimal.New(int64(n), -nanoScale).Equal(d.RoundUp(nanoScale)) {
			t.Errorf("%v is %d nano-dollars", d, n)
		}
	})
}

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
		if _, err := ParseUSD(d.String()); (err == nil) != (USD{d}).Readable() {
			t.Errorf("%v dollars: %v", d, err)
		}
		if _, err := ParseDecimal(d.String()); (err == nil) != (Decimal{d}).Readable() {
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
		if err != nil || !got.Equal(want) || got.Exponent() != want.Exponent() {
			t.Errorf("%q is %v e %d, not %v e %d, %v", s, got, got.Exponent(), want, want.Exponent(), err)
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
		factor := p.d.Shift(-2).Add(decimal.NewFromInt(1))
		if got, want := ApplyMarkup(USD{d}, p), d.Mul(factor).RoundBank(Scale); !got.d.Equal(want) || got.String() != want.String() {
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
