package admission

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
)

func usualCall() call {
	return call{Provider: "openai", Model: "gpt-4o", PriceVersion: "pv-0123456789abcdef0123456789abcdef", EstimateUSD: money.Nano(5_250_000).USD(),
		Meters: map[string]money.Decimal{"input_tokens": money.NewDecimal(900), "output_tokens": money.NewDecimal(300)}, Effect: "read",
		Root: "root-1", Agent: "agent-1", CostCenter: "bench", APIKey: "abcdefghijklmnop", Plan: 1_764_000_000_000_000_000}
}

// Goal: a call is read back as it was written, whatever it holds; the same call gives the same bytes.
func TestCallIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c call
		fill(t, reflect.ValueOf(&c).Elem())
		kept := c.encode()
		back, err := decodeCall(kept)
		if err != nil {
			t.Fatal(err)
		}
		again := back.encode()
		asJSON := func(c call) string {
			b, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if string(again) != string(kept) || !sameText(asJSON(c), asJSON(back)) {
			t.Errorf("%+v\n%+v", c, back)
		}
	})
}

// sameText is equality of JSON in which a list of no meters may be none.
func sameText(a, b string) bool {
	even := strings.NewReplacer(`,"meters":{}`, "", `,"meters":null`, "")
	return even.Replace(a) == even.Replace(b)
}

// Goal: what was kept as JSON is read as it was: rows stay for ever.
func TestCallKeptInJSON(t *testing.T) {
	c := usualCall()
	c.Saving = &quoted{Model: "gpt-4o-mini", PriceVersion: "pv-2", EstimateUSD: money.Nano(300_000).USD()}
	kept, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeCall(kept)
	if err != nil || string(back.encode()) != string(c.encode()) {
		t.Errorf("%s\n%+v, %v", kept, back, err)
	}
}

// Goal: what a hold keeps is small: each byte of it is sent, kept, signed and answered.
func TestCallIsSmall(t *testing.T) {
	if n := len(usualCall().encode()); n > 160 {
		t.Errorf("%d bytes", n)
	}
}

// Goal: whatever the bytes, they are read as what was written, or refused; no length in them makes anything large.
func FuzzDecodeCall(f *testing.F) {
	f.Add(usualCall().encode())
	f.Add(usualCall().granted(false).encode()[:40])
	f.Add([]byte(`{"provider":"openai","meters":{"output_tokens":1.5}}`))
	f.Add([]byte{keptVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{keptVersion, 0, 0, 0, 1, '0', 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{2})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, kept []byte) {
		c, err := decodeCall(kept)
		if err != nil {
			return
		}
		again, err := decodeCall(c.encode())
		if err != nil || string(again.encode()) != string(c.encode()) {
			t.Errorf("%q\n%+v\n%+v, %v", kept, c, again, err)
		}
	})
}

func BenchmarkKept(b *testing.B) {
	c := usualCall()
	kept := c.encode()
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.encode()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeCall(kept); err != nil {
				b.Fatal(err)
			}
		}
	})
}
