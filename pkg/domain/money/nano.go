package money

import (
	"fmt"
	"strconv"

	"github.com/shopspring/decimal"
)

// Nano is a whole number of nano-dollars (1e-9 USD): what budget counters
// hold.
type Nano int64

// MaxNano is the largest amount a counter may reach, $9,007,199.254740991:
// counters live in Lua, whose numbers are doubles, exact below 2^53.
const MaxNano Nano = 1<<53 - 1

const nanoScale = 9

// NanoRangeError says that an amount does not fit a counter. It wraps
// ErrRange.
type NanoRangeError struct{ Amount string } // in USD

func (e *NanoRangeError) Error() string {
	return fmt.Sprintf("%s USD is beyond a counter's bound of ±%s USD", e.Amount, MaxNano.USD())
}

// Unwrap makes errors.Is(err, ErrRange) true.
func (e *NanoRangeError) Unwrap() error { return ErrRange }

// CeilNano rounds an amount away from zero to whole nano-dollars, so
// CeilNano(-x) = -CeilNano(x) and a reversal cancels exactly. The error is a
// *NanoRangeError.
func CeilNano(a USD) (Nano, error) {
	if n, ok := ceilShort(a.number); ok {
		return n, nil
	}
	n := a.decimal().Shift(nanoScale).RoundUp(0)
	if n.Abs().Cmp(decimal.NewFromInt(int64(MaxNano))) > 0 {
		return 0, &NanoRangeError{Amount: a.String()}
	}
	return Nano(n.IntPart()), nil
}

// WholeNano is an amount that is whole nano-dollars and within a counter's bound,
// as a limit must be: one that were rounded would be another than was asked for.
// The error wraps ErrRange.
func WholeNano(a USD) (Nano, error) {
	n, err := CeilNano(a)
	if err == nil && n.USD().Cmp(a) != 0 {
		err = fmt.Errorf("%w: %s USD has more than nine decimals", ErrRange, a)
	}
	return n, err
}

// ceilShort is CeilNano of a short number that a counter may reach.
func ceilShort(a number) (Nano, bool) {
	if a.long != nil {
		return 0, false
	}
	if a.scale <= nanoScale {
		n, ok := a.scaled(nanoScale)
		return Nano(n), ok && Nano(n).valid()
	}
	unit := pow10(min(int(a.scale)-nanoScale, smallDigits)) // of more digits none is left: n is below 10^smallDigits
	n := a.n / unit
	if rest := a.n % unit; rest > 0 {
		n++
	} else if rest < 0 {
		n--
	}
	return Nano(n), Nano(n).valid()
}

// Add returns a + b, or a *NanoRangeError when the sum leaves the bound.
func (a Nano) Add(b Nano) (Nano, error) {
	if a.valid() && b.valid() && (a + b).valid() {
		return a + b, nil
	}
	return 0, &NanoRangeError{Amount: a.USD().Add(b.USD()).String()}
}

func (a Nano) valid() bool { return -MaxNano <= a && a <= MaxNano }

// USD returns the amount in dollars, exactly.
func (a Nano) USD() USD {
	if n, ok := short(int64(a), nanoScale); ok {
		return USD{n}
	}
	return USD{of(decimal.New(int64(a), -nanoScale))}
}

// String is the integer number of nano-dollars.
func (a Nano) String() string { return strconv.FormatInt(int64(a), 10) }
