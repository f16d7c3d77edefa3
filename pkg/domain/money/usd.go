package money

import (
	"fmt"
	"math"

	"github.com/shopspring/decimal"
)

// Scale is the number of fractional digits of an amount, that of the ledger's
// Decimal(38,18) columns.
const Scale = 18

// USD is an exact amount of United States dollars, at most 18 fractional
// digits and 20 integer digits when parsed.
type USD struct{ d decimal.Decimal }

// ParseUSD reads a decimal amount. More than 18 fractional digits is an
// error, not a rounding. Errors wrap ErrSyntax or ErrRange.
func ParseUSD(s string) (USD, error) {
	d, err := parse(s)
	if err != nil {
		return USD{}, err
	}
	if -d.Exponent() > Scale {
		return USD{}, fmt.Errorf("%w: more than %d fractional digits", ErrRange, Scale)
	}
	return USD{d}, nil
}

// Price returns quantity × rate as one line: rounded half-even to 18 digits.
func Price(quantity, rate Decimal) USD {
	q, small1 := small(quantity.d)
	r, small2 := small(rate.d)
	exp := quantity.d.Exponent() + rate.d.Exponent()
	if small1 && small2 && exp >= -Scale && exp <= 0 && quantity.d.NumDigits()+rate.d.NumDigits() <= smallDigits {
		return USD{decimal.New(q*r, exp)} // nothing to round
	}
	return USD{quantity.d.Mul(rate.d).RoundBank(Scale)}
}

// Mul returns a × quantity, rounded as a line.
func (a USD) Mul(quantity Decimal) USD { return USD{a.d.Mul(quantity.d).RoundBank(Scale)} }

// Add returns a + b, exactly.
func (a USD) Add(b USD) USD {
	if sum, ok := addSmall(a.d, b.d); ok {
		return USD{sum}
	}
	return USD{a.d.Add(b.d)}
}

// addSmall is a + b where int64 suffices, with the exponent that Decimal.Add gives it: the lower of both.
func addSmall(a, b decimal.Decimal) (decimal.Decimal, bool) {
	if a.Exponent() < b.Exponent() {
		a, b = b, a
	}
	n, ok := small(a)
	m, ok2 := small(b)
	shift := int(a.Exponent()) - int(b.Exponent())
	if !ok || !ok2 || shift > smallDigits || max(n, -n) > math.MaxInt64/2/pow10(shift) {
		return decimal.Decimal{}, false
	}
	if n == 0 { // a sum begins like that
		return b, true
	}
	return decimal.New(n*pow10(shift)+m, b.Exponent()), true
}

// Sub returns a - b, exactly.
func (a USD) Sub(b USD) USD { return USD{a.d.Sub(b.d)} }

// Neg returns -a: the amount of a reversal.
func (a USD) Neg() USD { return USD{a.d.Neg()} }

// Cmp is -1, 0 or +1 as a is less than, equal to or greater than b.
func (a USD) Cmp(b USD) int { return a.d.Cmp(b.d) }

// Sign is -1, 0 or +1.
func (a USD) Sign() int { return a.d.Sign() }

// IsZero reports whether a is 0.
func (a USD) IsZero() bool { return a.d.IsZero() }

// Split divides a into n parts which differ by at most one unit of the last
// digit (1e-18 dollars) and add up to a exactly; the earlier parts are the
// larger. n below 1 gives nil.
func (a USD) Split(n int) []USD {
	if n < 1 {
		return nil
	}
	q, r := a.d.QuoRem(decimal.NewFromInt(int64(n)), Scale)
	unit := decimal.New(int64(a.Sign()), -Scale)
	extra := r.Shift(Scale).Abs().IntPart()
	parts := make([]USD, n)
	for i := range parts {
		parts[i] = USD{q}
		if int64(i) < extra {
			parts[i] = USD{q.Add(unit)}
		}
	}
	return parts
}

// String is the plain decimal text, for example "0.022128".
func (a USD) String() string { return string(appendDecimal(nil, a.d)) }

// MarshalText is String, so JSON writes an amount as a string.
func (a USD) MarshalText() ([]byte, error) { return appendDecimal(nil, a.d), nil }

// UnmarshalText is ParseUSD.
func (a *USD) UnmarshalText(b []byte) (err error) {
	*a, err = ParseUSD(string(b))
	return err
}
