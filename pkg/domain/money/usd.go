package money

import "fmt"

// Scale is the number of fractional digits of an amount, that of the ledger's
// Decimal(38,18) columns.
const Scale = 18

// USD is an exact amount of United States dollars, at most 18 fractional
// digits and 20 integer digits when parsed.
type USD struct{ number }

// ParseUSD reads a decimal amount. More than 18 fractional digits is an
// error, not a rounding. Errors wrap ErrSyntax or ErrRange.
func ParseUSD(s string) (USD, error) {
	n, err := parse(s)
	if err != nil {
		return USD{}, err
	}
	if n.fraction() > Scale {
		return USD{}, fmt.Errorf("%w: more than %d fractional digits", ErrRange, Scale)
	}
	return USD{n}, nil
}

// Price returns quantity × rate as one line: rounded half-even to 18 digits.
func Price(quantity, rate Decimal) USD { return USD{quantity.line(rate.number)} }

// Mul returns a × quantity, rounded as a line.
func (a USD) Mul(quantity Decimal) USD { return USD{a.line(quantity.number)} }

// Add returns a + b, exactly.
func (a USD) Add(b USD) USD { return USD{a.add(b.number)} }

// Sub returns a - b, exactly.
func (a USD) Sub(b USD) USD { return USD{a.add(b.neg())} }

// Neg returns -a: the amount of a reversal.
func (a USD) Neg() USD { return USD{a.neg()} }

// Cmp is -1, 0 or +1 as a is less than, equal to or greater than b.
func (a USD) Cmp(b USD) int { return a.cmp(b.number) }

// Sign is -1, 0 or +1.
func (a USD) Sign() int { return a.sign() }

// IsZero reports whether a is 0.
func (a USD) IsZero() bool { return a.sign() == 0 }

// String is the plain decimal text, for example "0.022128".
func (a USD) String() string { return a.text() }

// MarshalText is String, so JSON writes an amount as a string.
func (a USD) MarshalText() ([]byte, error) { return a.append(nil), nil }

// UnmarshalText is ParseUSD.
func (a *USD) UnmarshalText(b []byte) (err error) {
	*a, err = ParseUSD(string(b))
	return err
}
