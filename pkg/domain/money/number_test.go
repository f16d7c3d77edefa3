package money

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// anyDecimal has all kinds of lengths and exponents, with zeros at the end, and often lies where the short form ends.
func anyDecimal(t *rapid.T) decimal.Decimal {
	coefficient := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-9999, 9999), rapid.SampledFrom([]int64{0, smallBound - 1, smallBound, smallBound + 1, 1 - smallBound,
		-smallBound, smallBound / 10, 5, 25, 50, 1<<63 - 1, -1 << 63, 4_294_967_296, 6_442_450_943, 999_999_999, 1_000_000_001})).Draw(t, "coefficient")
	d := decimal.New(coefficient, rapid.OneOf(rapid.Int32Range(-45, 5), rapid.Int32Range(-9, 0)).Draw(t, "exponent"))
	for range rapid.IntRange(0, 4).Draw(t, "factors") {
		d = d.Mul(decimal.New(rapid.SampledFrom([]int64{10, 100, 1000, 7, 0, -1}).Draw(t, "factor"), -1))
	}
	return d
}

// same reports whether a number is want, written as want is, and in the form that its value alone decides.
func same(a number, want decimal.Decimal) bool {
	digits := strings.TrimLeft(strings.Replace(strings.TrimPrefix(want.String(), "-"), ".", "", 1), "0")
	fits := len(digits) <= smallDigits && (Decimal{a}).FractionDigits() <= MaxFractionDigits
	return a.decimal().Equal(want) && string(a.append(nil)) == want.String() && (a.long == nil) == fits
}

// Goal: every operation says of short numbers what the library says of decimals.
func TestNumbersAreDecimals(t *testing.T) {
	shorts := 0
	rapid.Check(t, func(t *rapid.T) {
		d, e := anyDecimal(t), anyDecimal(t)
		a, b := of(d), of(e)
		if !same(a, d) || !same(b, e) {
			t.Fatalf("%v and %v are %+v and %+v", d, e, a, b)
		}
		if a.long == nil && b.long == nil {
			shorts++
		}
		for name, is := range map[string]struct {
			got  number
			want decimal.Decimal
		}{
			"+": {a.add(b), d.Add(e)}, "-": {Decimal{a}.Sub(Decimal{b}).number, d.Sub(e)}, "negative": {a.neg(), d.Neg()},
			"×": {a.mul(b), d.Mul(e)}, "as a line": {Price(Decimal{a}, Decimal{b}).number, d.Mul(e).RoundBank(Scale)},
			"half": {Decimal{a}.Half().number, d.Mul(decimal.New(5, -1))}, "per thousand": {Decimal{a}.PerThousand().number, d.Shift(-3)},
		} {
			if !same(is.got, is.want) {
				t.Errorf("%v %s %v is %+v (%v), not %v", d, name, e, is.got, is.got.decimal(), is.want)
			}
		}
		if a.cmp(b) != d.Cmp(e) || a.sign() != d.Sign() || (Decimal{a}).IsZero() != d.IsZero() {
			t.Errorf("%v and %v compare as %d", d, e, a.cmp(b))
		}
		if n, whole := (Decimal{a}).Int64(); whole != (d.IsInteger() && d.BigInt().IsInt64()) || whole && n != d.BigInt().Int64() {
			t.Errorf("%v is the integer %d: %v", d, n, whole)
		}
		up := d.Shift(nanoScale).RoundUp(0)
		if n, err := CeilNano(USD{a}); (err == nil) != (up.Abs().Cmp(decimal.NewFromInt(int64(MaxNano))) <= 0) || err == nil && int64(n) != up.IntPart() {
			t.Errorf("%v is %d nano-dollars: %v", d, n, err)
		}
	})
	if shorts < 10 {
		t.Errorf("only %d pairs were short: the generator proves nothing", shorts)
	}
}

// Goal: equal numbers are equal values, however they came about, so long as they are short.
func TestFormFollowsValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := of(anyDecimal(t)), of(anyDecimal(t))
		for _, back := range []number{a.add(b).add(b.neg()), a.shift(7).mul(whole(10_000_000)), of(a.decimal().Shift(-30).Shift(30))} {
			if a.long == nil && back != a || back.cmp(a) != 0 {
				t.Errorf("%+v came back as %+v", a, back)
			}
		}
	})
}

// Goal: so say rationals, an independent method, at and around every bound.
func FuzzNumbers(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 5, 15, 25, smallBound - 1, 1 - smallBound, 4_294_967_295, 999_999_999, 3_037_000_499, 1<<53 - 1, 123_456_789_012_345_678} {
		for _, scale := range []uint8{0, 6, 18, 19, 27, 36, 40} {
			f.Add(n, scale, int64(smallBound-1), uint8(18))
			f.Add(n, scale, int64(-5), uint8(19))
			f.Add(n, scale, int64(2_500_000_000_000_000), uint8(18))
		}
	}
	f.Fuzz(func(t *testing.T, n int64, scale uint8, m int64, scale2 uint8) {
		a, ok := short(n, int(scale))
		b, ok2 := short(m, int(scale2))
		if !ok || !ok2 {
			return
		}
		x, y := rational(n, scale), rational(m, scale2)
		exact := map[string][2]*big.Rat{"+": {rat(a.add(b)), new(big.Rat).Add(x, y)}, "×": {rat(a.mul(b)), new(big.Rat).Mul(x, y)}, "itself": {rat(a), x}}
		atto := new(big.Rat).Mul(new(big.Rat).Mul(x, y), new(big.Rat).SetInt(tenTo(Scale)))
		exact["as a line"] = [2]*big.Rat{rat(a.line(b)), new(big.Rat).SetFrac(nearestEven(atto), tenTo(Scale))}
		for name, is := range exact {
			if is[0].Cmp(is[1]) != 0 {
				t.Errorf("%d e-%d %s %d e-%d is %v, not %v", n, scale, name, m, scale2, is[0], is[1])
			}
		}
		if a.cmp(b) != x.Cmp(y) {
			t.Errorf("%d e-%d and %d e-%d compare as %d", n, scale, m, scale2, a.cmp(b))
		}
		var tooBig *NanoRangeError
		got, err := CeilNano(USD{a})
		want := awayFromZero(new(big.Rat).Mul(x, new(big.Rat).SetInt(tenTo(nanoScale))))
		if fits := want.IsInt64() && Nano(want.Int64()).valid(); fits != (err == nil) || fits && int64(got) != want.Int64() || err != nil && !errors.As(err, &tooBig) {
			t.Errorf("%d e-%d is %d nano-dollars, not %v: %v", n, scale, got, want, err)
		}
	})
}

func tenTo(n uint8) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func rational(n int64, scale uint8) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(n), tenTo(scale))
}

func rat(a number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(a.append(nil)))
	return r
}

func nearestEven(r *big.Rat) *big.Int {
	q, rest := new(big.Int).QuoRem(new(big.Int).Abs(r.Num()), r.Denom(), new(big.Int))
	if c := rest.Lsh(rest, 1).Cmp(r.Denom()); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q.Mul(q, big.NewInt(int64(r.Sign())))
}

func awayFromZero(r *big.Rat) *big.Int {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	return q.Add(q, big.NewInt(int64(rest.Sign())))
}

// BenchmarkLine is one line of a costing and its place in the total.
func BenchmarkLine(b *testing.B) {
	quantity := NewDecimal(1_234)
	rates := map[string]string{"short": "0.0000025", "noise": "2.9999900000000002e-06", "long": "0.0000025000000000000000000000000000000001"}
	for name, text := range rates {
		rate, err := ParseDecimal(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			total := Nano(875_500).USD()
			for b.Loop() {
				_ = total.Add(Price(quantity, rate))
			}
		})
	}
}
