package money

import "fmt"

// Percent is a tenant's markup: 20 means that $1.00 raw is billed as $1.20.
// Negative is a discount, at most -100.
type Percent struct{ number }

// Bounds of a markup, in percent, and its digits right of the point.
const (
	minPercent      = -100
	maxPercent      = 100_000
	percentFraction = 9
)

// ParsePercent reads "20", "12.5" or "-10". Errors wrap ErrSyntax or ErrRange.
func ParsePercent(s string) (Percent, error) {
	n, err := parse(s)
	if err != nil {
		return Percent{}, err
	}
	if n.cmp(whole(minPercent)) < 0 || n.cmp(whole(maxPercent)) > 0 || n.fraction() > percentFraction {
		return Percent{}, fmt.Errorf("%w: percent %s is not within %d and %d with %d fractional digits",
			ErrRange, n.append(nil), minPercent, maxPercent, percentFraction)
	}
	return Percent{n}, nil
}

// ApplyMarkup returns raw × (1 + p/100), rounded as a line. It is odd in raw:
// the markup of a reversal cancels the markup of what it reverses.
func ApplyMarkup(raw USD, p Percent) USD { return USD{raw.line(p.shift(2).add(whole(1)))} }

// Cmp is -1, 0 or +1 as p is less than, equal to or greater than q.
func (p Percent) Cmp(q Percent) int { return p.cmp(q.number) }

// String is the plain decimal text, without a percent sign.
func (p Percent) String() string { return p.text() }

// MarshalText is String.
func (p Percent) MarshalText() ([]byte, error) { return p.append(nil), nil }

// UnmarshalText is ParsePercent.
func (p *Percent) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePercent(string(b))
	return err
}
