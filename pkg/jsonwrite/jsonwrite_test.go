package jsonwrite_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/jsonwrite"
)

type inner struct {
	A string `json:"a"`
}

type outer struct {
	S string    `json:"s"`
	N int64     `json:"n"`
	B bool      `json:"b"`
	P *int      `json:"p"`
	U money.USD `json:"u"`
	L []string  `json:"l"`
	I inner     `json:"i"`
}

func write(v outer) []byte {
	o := jsonwrite.New(nil)
	o.String("s", v.S)
	o.Int("n", v.N)
	o.Bool("b", v.B)
	o.Null("p")
	o.Quoted("u", v.U)
	o.Strings("l", v.L)
	o.Open("i")
	o.String("a", v.I.A)
	o.Close()
	return o.End()
}

// Goal: whatever the text, the bytes are encoding/json's.
func FuzzObject(f *testing.F) {
	f.Add("plain", "", int64(0), true, "12.5")
	f.Add("<&> \"quoted\" \\ é \u2028 \x00 \xff", "opt", int64(-5), false, "-0.000000001")
	f.Fuzz(func(t *testing.T, s, opt string, n int64, b bool, amount string) {
		u, err := money.ParseUSD(amount)
		if err != nil {
			u = money.USD{}
		}
		v := outer{S: s, N: n, B: b, U: u, I: inner{A: opt}}
		if b {
			v.L = []string{s, opt}
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := write(v); !bytes.Equal(got, want) {
			t.Errorf("%s\n%s", got, want)
		}
	})
}

// Goal: texts are those of an encoder that does not escape HTML.
func FuzzText(f *testing.F) {
	f.Add("plain", int64(0))
	f.Add("<&> \"quoted\" \\ é \u2028 \x00 \xff", int64(-5))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(struct {
			S string            `json:"s,omitempty"`
			L []string          `json:"l"`
			M map[string]int64  `json:"m"`
			R []json.RawMessage `json:"r"`
		}{s, []string{s, "x"}, map[string]int64{s: n}, []json.RawMessage{}}); err != nil {
			t.Fatal(err)
		}
		o := jsonwrite.New(nil)
		o.OptionalText("s", s)
		o.Texts("l", []string{s, "x"})
		o.Open("m")
		o.Entry(s, money.NewDecimal(n))
		o.Close()
		o.Appended("r", func(b []byte) []byte { return append(b, "[]"...) })
		if got := o.End(); !bytes.Equal(got, bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			t.Errorf("%s\n%s", got, want.Bytes())
		}
	})
}

func BenchmarkObject(b *testing.B) {
	v := outer{S: "call-1234", N: 12, U: money.Nano(5_250_000).USD()}
	b.ReportAllocs()
	for b.Loop() {
		write(v)
	}
}
