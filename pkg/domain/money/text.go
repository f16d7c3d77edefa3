package money

import (
	"strconv"

	"github.com/shopspring/decimal"
)

// smallDigits is how many digits certainly fit an int64. Numbers of money and tokens nearly always do, and then need no
// arithmetic of any length to be written, shortened or rounded.
const smallDigits = 18

// small is the coefficient of d where it has at most smallDigits digits.
func small(d decimal.Decimal) (n int64, ok bool) {
	if d.NumDigits() > smallDigits {
		return 0, false
	}
	return d.CoefficientInt64(), true
}

// appendDecimal appends d as its String has it: no exponent, no trailing zeros after the point.
func appendDecimal(b []byte, d decimal.Decimal) []byte {
	n, ok := small(d)
	scale := int(-d.Exponent())
	if !ok || scale < 0 || scale > smallDigits {
		return append(b, d.String()...)
	}
	return appendScaled(b, n, scale)
}

// appendScaled appends n with so many digits after the point, none of the last of which is zero.
func appendScaled(b []byte, n int64, scale int) []byte {
	for ; scale > 0 && n%10 == 0; scale-- {
		n /= 10
	}
	if n < 0 {
		b = append(b, '-')
	}
	var digits [smallDigits + 2]byte
	text := strconv.AppendUint(digits[:0], magnitude(n), 10)
	if scale == 0 {
		return append(b, text...)
	}
	if whole := len(text) - scale; whole > 0 {
		b, text = append(b, text[:whole]...), text[whole:]
	} else {
		b = append(b, '0')
	}
	b = append(b, '.')
	for range scale - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

// magnitude is n without its sign.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// AppendUSD appends the amount in dollars, as the String of USD has it.
func (a Nano) AppendUSD(b []byte) []byte { return appendScaled(b, int64(a), nanoScale) }

// AppendText appends a as String has it.
func (a USD) AppendText(b []byte) ([]byte, error) { return appendDecimal(b, a.d), nil }

// AppendText appends a as String has it.
func (a Decimal) AppendText(b []byte) ([]byte, error) { return appendDecimal(b, a.d), nil }

// Readable reports whether ParseUSD reads what String writes: amounts that were added up may have grown beyond it.
func (a USD) Readable() bool {
	if isShort(a.d, Scale) {
		return true
	}
	_, err := ParseUSD(a.String())
	return err == nil
}

// Readable reports whether ParseDecimal reads what String writes.
func (a Decimal) Readable() bool {
	if isShort(a.d, maxFraction) {
		return true
	}
	_, err := ParseDecimal(a.String())
	return err == nil
}

// isShort reports whether d has few enough digits, at most fraction of them behind the point, to be certainly read back.
func isShort(d decimal.Decimal, fraction int32) bool {
	return d.NumDigits() <= smallDigits && d.Exponent() <= 0 && -d.Exponent() <= fraction
}

// pow10 is 10^n for 0 ≤ n ≤ smallDigits.
func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}
