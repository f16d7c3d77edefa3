package money

import "strconv"

// append appends a: no exponent, no trailing zeros after the point.
func (a number) append(b []byte) []byte {
	if a.long != nil {
		return append(b, a.long.String()...)
	}
	return appendScaled(b, a.n, int(a.scale))
}

func (a number) text() string {
	var room [smallDigits + 8]byte // enough for nearly all, without the heap
	return string(a.append(room[:0]))
}

// fraction is how many digits are behind the point.
func (a number) fraction() int {
	if a.long != nil {
		return int(-a.long.Exponent())
	}
	return int(a.scale)
}

// appendScaled appends n with so many digits after the point, none of the last of which is zero.
func appendScaled(b []byte, n int64, scale int) []byte {
	for ; scale > 0 && n%10 == 0; scale-- {
		n /= 10
	}
	if n < 0 {
		b = append(b, '-')
	}
	var digits [20]byte // an int64's
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

// AppendUSD appends the amount in dollars, as the String of USD has it.
func (a Nano) AppendUSD(b []byte) []byte { return appendScaled(b, int64(a), nanoScale) }

// AppendText appends a as String has it.
func (a USD) AppendText(b []byte) ([]byte, error) { return a.append(b), nil }

// AppendText appends a as String has it.
func (a Decimal) AppendText(b []byte) ([]byte, error) { return a.append(b), nil }

// Readable reports whether ParseUSD reads what String writes: amounts that were added up may have grown beyond it.
func (a USD) Readable() bool {
	if a.long == nil {
		return a.scale <= Scale
	}
	_, err := ParseUSD(a.String())
	return err == nil
}

// Readable reports whether ParseDecimal reads what String writes.
func (a Decimal) Readable() bool {
	if a.long == nil {
		return true
	}
	_, err := ParseDecimal(a.String())
	return err == nil
}
