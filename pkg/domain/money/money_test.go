package money

import (
	"encoding/json"
	"errors"
	"math/big"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

func usd(t testing.TB, s string) USD {
	t.Helper()
	a, err := ParseUSD(s)
	if err != nil {
		t.Fatalf("ParseUSD(%q): %v", s, err)
	}
	return a
}

func dec(t testing.TB, s string) Decimal {
	t.Helper()
	a, err := ParseDecimal(s)
	if err != nil {
		t.Fatalf("ParseDecimal(%q): %v", s, err)
	}
	return a
}

func TestParseAndFormat(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0e9": "0", "1": "1", "1.50": "1.5", "1e+2": "100", "007": "7", "100": "100", "1e2": "100", "2.5e-06": "0.0000025",
		"1e-05": "0.00001", "1E-5": "0.00001", "0.000000000000000001": "0.000000000000000001",
		"12345678901234567890": "12345678901234567890", "-7.10": "-7.1", "1.000000000000000000000": "1",
	} {
		if got := usd(t, in).String(); got != want {
			t.Errorf("ParseUSD(%q) = %s, want %s", in, got, want)
		}
		if got := dec(t, in).String(); got != want {
			t.Errorf("ParseDecimal(%q) = %s, want %s", in, got, want)
		}
	}
	if got := dec(t, "2.9999900000000002e-06").String(); got != "0.0000029999900000000002" {
		t.Errorf("float noise must be kept as written, got %s", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]error{
		"": ErrSyntax, " 1": ErrSyntax, "1 ": ErrSyntax, "$1": ErrSyntax, "1,5": ErrSyntax, ".5": ErrSyntax, "5.": ErrSyntax,
		"1e": ErrSyntax, "e1": ErrSyntax, "1e1.5": ErrSyntax, "--1": ErrSyntax, "+1": ErrSyntax, "+1.50": ErrSyntax, "-+1": ErrSyntax, "+": ErrSyntax, "-": ErrSyntax, "NaN": ErrSyntax, "Infinity": ErrSyntax,
		"\u22121": ErrSyntax, "0x10": ErrSyntax, "1_000": ErrSyntax, "1e99999999999": ErrSyntax,
		"1e999999999": ErrRange, "1e-999999999": ErrRange, "123456789012345678901": ErrRange, "1e20": ErrRange, "1e-41": ErrRange,
	} {
		if _, err := ParseDecimal(in); !errors.Is(err, want) {
			t.Errorf("ParseDecimal(%q) error %v, want %v", in, err, want)
		}
	}
	if _, err := ParseUSD("0.0000000000000000001"); !errors.Is(err, ErrRange) {
		t.Errorf("19 fractional digits: %v", err)
	}
	if _, err := ParsePercent("-100.1"); !errors.Is(err, ErrRange) {
		t.Errorf("percent below -100: %v", err)
	}
}

func TestLineRoundsHalfEven(t *testing.T) {
	for _, c := range []struct{ rate, want string }{
		{"0.5e-18", "0"}, {"1.5e-18", "0.000000000000000002"}, {"2.5e-18", "0.000000000000000002"},
		{"-0.5e-18", "0"}, {"-1.5e-18", "-0.000000000000000002"}, {"0.51e-18", "0.000000000000000001"},
	} {
		if got := Price(NewDecimal(1), dec(t, c.rate)).String(); got != c.want {
			t.Errorf("Price(1, %s) = %s, want %s", c.rate, got, c.want)
		}
	}
}

func TestMarkup(t *testing.T) {
	p, err := ParsePercent("20")
	if err != nil {
		t.Fatal(err)
	}
	if got := ApplyMarkup(usd(t, "0.022128"), p).String(); got != "0.0265536" {
		t.Errorf("markup = %s", got)
	}
	if got := ApplyMarkup(usd(t, "1"), Percent{}).String(); got != "1" {
		t.Errorf("no markup = %s", got)
	}
}

func TestCeilNano(t *testing.T) {
	for in, want := range map[string]Nano{
		"0": 0, "1": 1_000_000_000, "0.000000001": 1, "0.0000000001": 1, "0.000000001000000001": 2, "-0.0000000001": -1,
		"9007199.254740991": MaxNano, "-9007199.254740991": -MaxNano, "9007199.2547409901": MaxNano,
	} {
		got, err := CeilNano(usd(t, in))
		if err != nil || got != want {
			t.Errorf("CeilNano(%s) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"9007199.254740992", "9007199.2547409911", "-9007199.254740992", "99999999999999999999"} {
		var tooBig *NanoRangeError
		if _, err := CeilNano(usd(t, in)); !errors.As(err, &tooBig) || !errors.Is(err, ErrRange) {
			t.Errorf("CeilNano(%s) error %v", in, err)
		}
	}
	if _, err := MaxNano.Add(1); !errors.Is(err, ErrRange) {
		t.Errorf("MaxNano + 1: %v", err)
	}
	if _, err := Nano(1<<63 - 1).Add(1<<63 - 1); !errors.Is(err, ErrRange) {
		t.Errorf("overflow: %v", err)
	}
	if got := Nano(1_500_000_000).USD().String(); got != "1.5" {
		t.Errorf("USD() = %s", got)
	}
}

// Field report: sums of floats grow tails.
func TestSumsAreExact(t *testing.T) {
	if got := usd(t, "0.000375").Add(usd(t, "0.00124")).String(); got != "0.001615" {
		t.Errorf("float tail: %s", got)
	}
}

// amount draws any representable amount up to ±$9 million.
func amount(t *rapid.T) USD {
	whole := rapid.Int64Range(-9_000_000, 9_000_000).Draw(t, "dollars")
	frac := rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "atto")
	return USD{of(decimal.New(whole, 0).Add(decimal.New(frac, -Scale)))}
}

func TestReversalCancels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := amount(t)
		up, err := CeilNano(a)
		down, err2 := CeilNano(a.Neg())
		if err != nil || err2 != nil || up != -down {
			t.Fatalf("CeilNano(±%s) = %d, %d (%v, %v)", a, up, down, err, err2)
		}
		if d := up.USD().Sub(a); a.Sign() >= 0 && (d.Sign() < 0 || d.Cmp(Nano(1).USD()) >= 0) {
			t.Fatalf("CeilNano(%s) = %d is off by %s", a, up, d)
		}
		p := Percent{of(decimal.New(rapid.Int64Range(-100, 1000).Draw(t, "percent"), -1))}
		if !ApplyMarkup(a, p).Add(ApplyMarkup(a.Neg(), p)).IsZero() {
			t.Fatalf("markup of ±%s does not cancel", a)
		}
	})
}

// The library's rounding is checked against rationals, an independent method.
func TestPriceAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.Int64Range(0, 1<<53-1).Draw(t, "q")
		c := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "c")
		exp := rapid.Int32Range(12, 30).Draw(t, "exp")
		got := Price(NewDecimal(q), Decimal{of(decimal.New(c, -exp))})
		product := new(big.Int).Mul(big.NewInt(q), big.NewInt(c)) // × 10^-exp
		want := halfEven(product, int(exp)-Scale)
		if got.decimal().Shift(Scale).BigInt().Cmp(want) != 0 {
			t.Fatalf("Price(%d, %de-%d) = %s, want %s atto", q, c, exp, got, want)
		}
	})
}

func halfEven(n *big.Int, drop int) *big.Int {
	if drop <= 0 {
		return new(big.Int).Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-drop)), nil))
	}
	div := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(drop)), nil)
	q, r := new(big.Int).QuoRem(new(big.Int).Abs(n), div, new(big.Int))
	if c := r.Lsh(r, 1).Cmp(div); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	if n.Sign() < 0 {
		q.Neg(q)
	}
	return q
}

func TestJSON(t *testing.T) {
	type doc struct {
		Cost USD     `json:"cost"`
		Qty  Decimal `json:"qty"`
		Pct  Percent `json:"pct"`
	}
	var d doc
	if err := json.Unmarshal([]byte(`{"cost":"0.10","qty":9.50,"pct":"20"}`), &d); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(d)
	if err != nil || string(out) != `{"cost":"0.1","qty":9.5,"pct":"20"}` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestDecimalParts(t *testing.T) {
	if n, ok := dec(t, "120.0").Int64(); !ok || n != 120 {
		t.Error("120.0 is an integer")
	}
	if _, ok := dec(t, "1.5").Int64(); ok {
		t.Error("1.5 is not an integer")
	}
	if _, ok := dec(t, "9223372036854775808").Int64(); ok {
		t.Error("2^63 does not fit")
	}
	if got := dec(t, "2.9999900000000002e-06").Digits(); got != 17 {
		t.Errorf("digits = %d", got)
	}
	if got := dec(t, "2.50").PerThousand().Half().String(); got != "0.00125" {
		t.Errorf("per thousand, half = %s", got)
	}
	if got := dec(t, "9.25").FractionDigits(); got != 2 {
		t.Errorf("fraction digits = %d", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "1.5", "-2.5e-06", "1e5", "1e999999999", "..", "9007199.254740992", "1.5000020000000002e-05"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUSD(s)
		if err != nil {
			return
		}
		b, err := ParseUSD(a.String())
		if err != nil || a.Cmp(b) != 0 || a.String() != b.String() {
			t.Fatalf("%q → %s → %s, %v", s, a, b, err)
		}
		want, ok := new(big.Rat).SetString(s)
		got, _ := new(big.Rat).SetString(a.String())
		if !ok || want.Cmp(got) != 0 {
			t.Fatalf("%q parsed as %s", s, a)
		}
	})
}
