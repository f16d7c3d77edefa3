package money

import (
	"fmt"
	"math"

	"github.com/shopspring/decimal"
)

// Percent is a tenant's markup: 20 means that $1.00 raw is billed as $1.20.
// Negative is a discount, at most -100.
type Percent struct{ d decimal.Decimal }

// Bounds of a markup, in percent, and its digits right of the point.
const (
	minPercent      = -100
	maxPercent      = 100_000
	percentFraction = 9
)

// ParsePercent reads "20", "12.5" or "-10". Errors wrap ErrSyntax or ErrRange.
func ParsePercent(s string) (Percent, error) {
	d, err := parse(s)
	if err != nil {
		return Percent{}, err
	}
	if d.Cmp(decimal.NewFromInt(minPercent)) < 0 || d.Cmp(decimal.NewFromInt(maxPercent)) > 0 || -d.Exponent() > percentFraction {
		return Percent{}, fmt.Errorf("%w: percent %s is not within %d and %d with %d fractional digits",
			ErrRange, d, minPercent, maxPercent, percentFraction)
	}
	return Percent{d}, nil
}

// ApplyMarkup returns raw × (1 + p/100), rounded as a line. It is odd in raw:
// the markup of a reversal cancels the markup of what it reverses.
func ApplyMarkup(raw USD, p Percent) USD {
	if usd, ok := markupSmall(raw, p); ok {
		return usd
	}
	factor := p.d.Shift(-2).Add(decimal.NewFromInt(1))
	return USD{raw.d.Mul(factor).RoundBank(Scale)}
}

// markupSmall is ApplyMarkup where int64 suffices and there is nothing to round.
func markupSmall(raw USD, p Percent) (USD, bool) {
	n, ok := small(raw.d)
	percent, ok2 := small(p.d)
	exp := p.d.Exponent() - 2
	if !ok || !ok2 || exp > -2 || exp < -percentFraction-2 || raw.d.Exponent()+exp < -Scale {
		return USD{}, false
	}
	factor := pow10(int(-exp)) + percent // in units of 10^exp; not negative, since no percentage is below -100
	if factor <= 0 || max(n, -n) > math.MaxInt64/factor {
		return USD{}, false
	}
	return USD{decimal.New(n*factor, raw.d.Exponent()+exp)}, true
}

// IsZero reports whether there is no markup.
func (p Percent) IsZero() bool { return p.d.IsZero() }

// Cmp is -1, 0 or +1 as p is less than, equal to or greater than q.
func (p Percent) Cmp(q Percent) int { return p.d.Cmp(q.d) }

// String is the plain decimal text, without a percent sign.
func (p Percent) String() string { return p.d.String() }

// MarshalText is String.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePercent.
func (p *Percent) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePercent(string(b))
	return err
}
