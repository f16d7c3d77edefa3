package money

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/shopspring/decimal"
)

// number is an exact decimal. Nearly every number of money and tokens is an int64 and a power of ten, of which sums and
// products are a few instructions and no memory; one that is not is a library decimal, a hundred times slower. Which of
// the two it is depends on its value alone. Each operation tries the short form, notices where a result may not fit, and
// leaves that to the library; property tests hold the two against each other.
type number struct {
	// n × 10^-scale is the number where long is nil: |n| < smallBound, scale from 0 to MaxFractionDigits, and with a scale the
	// last digit of n is not 0.
	n     int64
	scale int8
	// long is a number that has no such form.
	long *decimal.Decimal
}

// smallDigits is how many digits n has at most, so that the sum of two is an int64, and the product of two 128 bits.
const (
	smallDigits = 18
	smallBound  = 1_000_000_000_000_000_000 // 10^smallDigits
)

// short is n × 10^-scale; false where it has no short form.
func short(n int64, scale int) (number, bool) {
	for ; scale > 0 && n%10 == 0; scale-- {
		if n == 0 {
			return number{}, true
		}
		n /= 10
	}
	if n <= -smallBound || n >= smallBound || scale < 0 || scale > MaxFractionDigits {
		return number{}, false
	}
	return number{n: n, scale: int8(scale)}, true
}

// whole is n itself.
func whole(n int64) number {
	if a, ok := short(n, 0); ok {
		return a
	}
	return of(decimal.NewFromInt(n))
}

// of is the number that d is.
func of(d decimal.Decimal) number {
	d = normal(d)
	if d.NumDigits() <= smallDigits {
		if a, ok := short(d.CoefficientInt64(), int(-d.Exponent())); ok {
			return a
		}
	}
	return number{long: &d}
}

// decimal is the inverse of of.
func (a number) decimal() decimal.Decimal {
	if a.long != nil {
		return *a.long
	}
	return decimal.New(a.n, -int32(a.scale))
}

// scaled is a short number in units of 10^-scale, which are not coarser than its own; false where it has too many of them.
func (a number) scaled(scale int8) (int64, bool) {
	more := int(scale - a.scale)
	if more == 0 || a.n == 0 {
		return a.n, true
	}
	if more > smallDigits {
		return 0, false
	}
	high, low := bits.Mul64(magnitude(a.n), uint64(pow10(more)))
	if high != 0 || low >= smallBound {
		return 0, false
	}
	return signed(low, a.n < 0), true
}

// signed is a magnitude with its sign.
func signed(n uint64, negative bool) int64 {
	if negative {
		return -int64(n)
	}
	return int64(n)
}

// aligned are two numbers in the same units, 10^-scale; false where that has no short form.
func aligned(a, b number) (n, m int64, scale int8, ok bool) {
	if a.long != nil || b.long != nil {
		return 0, 0, 0, false
	}
	scale = max(a.scale, b.scale)
	n, ok = a.scaled(scale)
	m, ok2 := b.scaled(scale)
	return n, m, scale, ok && ok2
}

func (a number) add(b number) number {
	if n, m, scale, ok := aligned(a, b); ok {
		if sum, ok := short(n+m, int(scale)); ok {
			return sum
		}
	}
	return of(a.decimal().Add(b.decimal()))
}

func (a number) neg() number {
	if a.long == nil {
		a.n = -a.n
		return a
	}
	return of(a.long.Neg())
}

// mul is a × b, exactly.
func (a number) mul(b number) number {
	if product, ok := shortProduct(a, b, 2*MaxFractionDigits); ok { // more digits than two short numbers have
		return product
	}
	return of(a.decimal().Mul(b.decimal()))
}

// line is a × b by the rounding rule of lines: half-even to Scale digits behind the point.
func (a number) line(b number) number {
	if product, ok := shortProduct(a, b, Scale); ok {
		return product
	}
	return of(a.decimal().Mul(b.decimal()).RoundBank(Scale))
}

// shortProduct is a × b with at most so many digits behind the point, rounded half-even; false where it, or one of them,
// has no short form.
func shortProduct(a, b number, digits int) (number, bool) {
	if a.long != nil || b.long != nil {
		return number{}, false
	}
	high, low := bits.Mul64(magnitude(a.n), magnitude(b.n))
	scale, rest, unit := int(a.scale)+int(b.scale), uint64(0), uint64(1)
	if drop := scale - digits; drop > 0 {
		if unit = uint64(pow10(min(drop, smallDigits))); drop > smallDigits || high >= unit {
			return number{}, false
		}
		low, rest = bits.Div64(high, low, unit)
		high, scale = 0, digits
	}
	if high != 0 || low >= math.MaxInt64 {
		return number{}, false
	}
	if 2*rest > unit || 2*rest == unit && low%2 == 1 {
		low++
	}
	return short(signed(low, (a.n < 0) != (b.n < 0)), scale)
}

// shift is a × 10^-digits, for digits above zero.
func (a number) shift(digits int) number {
	if a.long == nil {
		if shifted, ok := short(a.n, int(a.scale)+digits); ok {
			return shifted
		}
	}
	return of(a.decimal().Shift(int32(-digits)))
}

func (a number) cmp(b number) int {
	if n, m, _, ok := aligned(a, b); ok {
		return cmp.Compare(n, m)
	}
	return a.decimal().Cmp(b.decimal())
}

func (a number) sign() int {
	if a.long == nil {
		return cmp.Compare(a.n, 0)
	}
	return a.long.Sign()
}

// pow10 is 10^n for 0 ≤ n ≤ smallDigits.
func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

// magnitude is n without its sign.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
