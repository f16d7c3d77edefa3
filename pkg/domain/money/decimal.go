package money

import (
	"errors"
	"fmt"
)

// Bounds of what the parsers accept. They are far beyond any real price or
// quantity; their purpose is that hostile text such as "1e999999999" costs
// nothing.
const (
	maxText     = 80 // bytes of one number
	maxIntegers = 20 // digits left of the point: what Decimal(38,18) can hold
	// MaxFractionDigits is how many digits right of the point a quantity or a rate has at most.
	MaxFractionDigits = 40
)

// ErrSyntax says that a text is not a decimal number.
var ErrSyntax = errors.New("not a decimal number")

// ErrRange says that a number is larger or finer than the type allows.
var ErrRange = errors.New("number out of range")

// Decimal is an exact quantity or rate: at most 20 digits before and 40 after
// the point. It has no unit; the name of the field that holds it says which.
type Decimal struct{ number }

// NewDecimal returns the whole number n.
func NewDecimal(n int64) Decimal { return Decimal{whole(n)} }

// ParseDecimal reads "12", "0.5", "2.5e-06" or "1E-5". The value is that of
// the text, digit by digit. Errors wrap ErrSyntax or ErrRange.
func ParseDecimal(s string) (Decimal, error) {
	n, err := parse(s)
	if err != nil {
		return Decimal{}, err
	}
	if n.fraction() > MaxFractionDigits {
		return Decimal{}, fmt.Errorf("%w: more than %d fractional digits", ErrRange, MaxFractionDigits)
	}
	return Decimal{n}, nil
}

// Add returns a + b.
func (a Decimal) Add(b Decimal) Decimal { return Decimal{a.add(b.number)} }

// Sub returns a - b.
func (a Decimal) Sub(b Decimal) Decimal { return Decimal{a.add(b.neg())} }

// Mul returns a × b, exactly. Digits grow with each call: multiply a rate by
// a few factors, never in a loop over input.
func (a Decimal) Mul(b Decimal) Decimal { return Decimal{a.mul(b.number)} }

// Half returns a / 2, exactly.
func (a Decimal) Half() Decimal { return Decimal{a.mul(number{n: 5, scale: 1})} }

// PerThousand returns a / 1000, exactly: for list prices per 1,000 units.
func (a Decimal) PerThousand() Decimal { return Decimal{a.shift(3)} }

// Cmp is -1, 0 or +1 as a is less than, equal to or greater than b.
func (a Decimal) Cmp(b Decimal) int { return a.cmp(b.number) }

// Sign is -1, 0 or +1.
func (a Decimal) Sign() int { return a.sign() }

// IsZero reports whether a is 0.
func (a Decimal) IsZero() bool { return a.sign() == 0 }

// Int64 returns a as an integer, and whether it is one that fits.
func (a Decimal) Int64() (int64, bool) {
	if a.long == nil {
		if a.scale > 0 {
			return 0, false
		}
		return a.n, true
	}
	if !a.long.IsInteger() {
		return 0, false
	}
	b := a.long.BigInt()
	return b.Int64(), b.IsInt64()
}

// Digits is the number of significant digits, trailing zeros not counted: 15
// and more is the mark of a number that went through binary floating point.
func (a Decimal) Digits() int {
	s := a.decimal().Coefficient().String()
	if s[0] == '-' {
		s = s[1:]
	}
	return len(s) - trailingZeros(s)
}

// FractionDigits is the number of digits right of the point, 0 for integers.
func (a Decimal) FractionDigits() int { return a.fraction() }

// String is the plain decimal text.
func (a Decimal) String() string { return a.text() }

// MarshalText is String.
func (a Decimal) MarshalText() ([]byte, error) { return a.append(nil), nil }

// UnmarshalText is ParseDecimal.
func (a *Decimal) UnmarshalText(b []byte) (err error) {
	*a, err = ParseDecimal(string(b))
	return err
}

// MarshalJSON writes a bare number: quantities are numbers on the wire, only
// amounts of money are strings.
func (a Decimal) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

// UnmarshalJSON reads a number, or the same in quotes, from its text.
func (a *Decimal) UnmarshalJSON(b []byte) (err error) {
	*a, err = ParseDecimal(unquote(b))
	return err
}

func unquote(b []byte) string {
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	return string(b)
}
