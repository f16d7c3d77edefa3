package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/weir-project/weir/pkg/domain/money"
)

// maxQuantity bounds every count: below 2^53, where all JSON readers agree.
const maxQuantity = 1<<53 - 1

// measureDigits is how fine a measured quantity may be.
const measureDigits = 9

// count is a JSON integer that may be absent. null leaves what was there, so
// decoding a stream's chunks in turn keeps the last value of each field.
type count struct {
	n   int64
	set bool
}

// UnmarshalJSON accepts 12 and 12.0 (Cohere sends floats), not "12".
func (c *count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, err := parseCount(string(b))
	if err != nil { // encoding/json adds the field to an error of its own kind; decode says the rest
		return &json.UnmarshalTypeError{Value: string(b), Type: reflect.TypeFor[count]()}
	}
	*c = count{n, true}
	return nil
}

func parseCount(s string) (int64, error) {
	if n, ok := shortInt(s); ok {
		return n, nil
	}
	d, err := parseQuantity(s)
	if err != nil {
		return 0, err
	}
	n, ok := d.Int64()
	if !ok {
		return 0, fmt.Errorf("%w: count %s is not whole", ErrMalformed, s)
	}
	return n, nil
}

// plus adds two counts and stops just beyond the bound, where the sum is
// refused later: a hostile list of counts must not wrap around.
func plus(a, b int64) int64 { return min(a+b, maxQuantity+1) }

// shortInt is the fast path: up to 15 digits, which is below 2^53.
func shortInt(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// parseQuantity reads any quantity within the bounds of this package.
func parseQuantity(s string) (money.Decimal, error) {
	d, err := money.ParseDecimal(s)
	switch {
	case errors.Is(err, money.ErrRange):
		return money.Decimal{}, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return money.Decimal{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case d.Sign() < 0:
		return money.Decimal{}, fmt.Errorf("%w: %s", ErrNegative, s)
	case d.Cmp(money.NewDecimal(maxQuantity)) > 0:
		return money.Decimal{}, fmt.Errorf("%w: %s is not below 2^53", ErrTooLarge, s)
	case d.FractionDigits() > measureDigits:
		return money.Decimal{}, fmt.Errorf("%w: %s has more than %d fractional digits", ErrTooLarge, s, measureDigits)
	}
	return d, nil
}

// text is a JSON string that may be absent; anything else reads as absent,
// because a label of the wrong type must not lose the counts beside it.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = text(s)
	return nil
}

// ParseMeters reads quantities that a caller measured itself. Every name must
// be a meter, tokens and counts must be whole, and the tokens of either side no
// more in all than one count may be: they meet in one counter. Zeros are
// dropped. Errors wrap ErrUnknownMeter, ErrMalformed, ErrNegative or ErrTooLarge.
func ParseMeters(in map[string]json.Number) (Meters, error) {
	out := make(Meters, len(in))
	for name, number := range in {
		m := Meter(name)
		if m.Unit() == Unknown {
			return nil, fmt.Errorf("%w: %.64q", ErrUnknownMeter, name)
		}
		q, err := parseQuantity(string(number))
		if err != nil {
			return nil, fmt.Errorf("meter %s: %w", name, err)
		}
		if _, whole := q.Int64(); !whole && m.Unit() != Measure {
			return nil, fmt.Errorf("meter %s: %w: %s is not whole", name, ErrMalformed, number)
		}
		if !q.IsZero() {
			out[m] = q
		}
	}
	if in, product := (Usage{Meters: out}).Tokens(); max(in, product) > maxQuantity {
		return nil, fmt.Errorf("%w: sum of tokens", ErrTooLarge)
	}
	return out, nil
}
