package money

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// parse reads a decimal with bounded work: the text is checked by hand first,
// so that the library is never asked to scale by a hostile exponent.
func parse(s string) (number, error) {
	if n, ok := parseSmall(s); ok {
		return n, nil
	}
	return parseAny(s)
}

// parseSmall is parseAny for digits, with a point or without, that an int64 holds.
func parseSmall(s string) (number, bool) {
	if len(s) == 0 || len(s) > smallDigits {
		return number{}, false
	}
	n, scale := int64(0), 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			n = 10*n + int64(c-'0')
		case c == '.' && i > 0 && i < len(s)-1 && scale == 0:
			scale = len(s) - i - 1 // so a second point is none
		default:
			return number{}, false
		}
	}
	return short(n, scale)
}

func parseAny(s string) (number, error) {
	exp, err := scan(s)
	if err != nil {
		return number{}, err
	}
	if exp > maxText || exp < -maxText {
		return number{}, fmt.Errorf("%w: exponent %d", ErrRange, exp)
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return number{}, fmt.Errorf("%w: %q", ErrSyntax, s)
	}
	if d.IsZero() {
		return number{}, nil
	}
	if d.NumDigits()+int(d.Exponent()) > maxIntegers {
		return number{}, fmt.Errorf("%w: more than %d integer digits", ErrRange, maxIntegers)
	}
	return of(d), nil
}

// normal rewrites d without trailing zeros behind the point, exponent at most 0.
func normal(d decimal.Decimal) decimal.Decimal {
	if d.Exponent() > 0 || d.IsZero() {
		return decimal.NewFromBigInt(d.BigInt(), 0)
	}
	zeros := trailingZeros(d.Coefficient().String())
	if zeros == 0 || d.Exponent() == 0 {
		return d
	}
	exp := d.Exponent() + int32(min(zeros, int(-d.Exponent())))
	return decimal.NewFromBigInt(d.Shift(-exp).BigInt(), exp)
}

func trailingZeros(digits string) int {
	n := 0
	for n < len(digits)-1 && digits[len(digits)-1-n] == '0' {
		n++
	}
	return n
}

// scan checks [-] digits [. digits] [e [+-] digits], which is a number of JSON
// but for zeros that lead, and returns the exponent.
func scan(s string) (exp int, err error) {
	if len(s) == 0 || len(s) > maxText {
		return 0, fmt.Errorf("%w: %d bytes", ErrSyntax, len(s))
	}
	rest := strings.TrimPrefix(s, "-")
	whole := digits(rest)
	rest = rest[whole:]
	ok := whole > 0
	if len(rest) > 0 && rest[0] == '.' {
		n := digits(rest[1:])
		ok = ok && n > 0
		rest = rest[1+n:]
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		tail := unsigned(rest[1:])
		n := digits(tail)
		ok = ok && n > 0 && n <= 9
		if ok {
			exp = atoi(tail[:n])
		}
		if rest[1:] != tail && rest[1] == '-' {
			exp = -exp
		}
		rest = tail[n:]
	}
	if !ok || rest != "" {
		return 0, fmt.Errorf("%w: %q", ErrSyntax, s)
	}
	return exp, nil
}

// unsigned is an exponent without its sign.
func unsigned(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[1:]
	}
	return s
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func atoi(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}
