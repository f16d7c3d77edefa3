package usageevent

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
)

const plainUsage = `{"prompt_tokens":880,"completion_tokens":210,"total_tokens":1090,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":64,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

// Goal: what is plain is read quickly.
func TestPlainIsPlain(t *testing.T) {
	for _, raw := range []string{plainUsage, `{}`, ` { "a" : [ 1 , -2.5e-3, {"b":null} ], "c":"x y" } `} {
		if _, ok := plainMembers([]byte(raw)); !ok {
			t.Errorf("%s: its members are not plain", raw)
		}
		if _, ok := Order([]byte(raw), anyName); !ok {
			t.Errorf("%s is not plain", raw)
		}
	}
}

// Goal: a plain reading is encoding/json's, whatever the bytes.
func FuzzPlain(f *testing.F) {
	for _, raw := range []string{plainUsage, `{}`, `[]`, `1`, `"x"`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"b":1,"a":[{"d":1,"c":2},[],{}]}`, `{"a":01}`, `{"a":-}`,
		`{"a":1.}`, `{"a":1e}`, `{"a":1E+2}`, `{"a":-0}`, `{"a":tru}`, `{"a":truefalse}`, `{"a":nullx}`, `{"a" 1}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a":"\u0041"}`, `{"a":"é"}`,
		`{"a":"<&>"}`, `{"\u0061":1}`, `{"a":1} x`, "{\"a\":\"\x7f\"}", `{"a":[[[[[[[[[[1]]]]]]]]]]}`, `{"":""}`, ` `, ``} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, ok := plainMembers(raw); ok {
			want, err := readMembers(raw, "it")
			if err != nil || !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
				t.Errorf("%q: %q, not %q, %v", raw, got, want, err)
			}
		}
		if got, ok := appendPlain(nil, raw, nil); ok && !bytes.Equal(got, readCanonical(raw)) {
			t.Errorf("%q: %s, not %s", raw, got, readCanonical(raw))
		}
		if o, ok := Order(raw, anyName); ok {
			checkOrdered(t, raw, o)
		}
	})
}

func anyName([]byte) bool { return true }

// checkOrdered: an object in order says what raw does, can be read by everybody alike, and makes the event that raw makes.
func checkOrdered(t *testing.T, raw json.RawMessage, o Ordered) {
	if again, ok := Order(o.Bytes(), anyName); !ok || !bytes.Equal(again.Bytes(), o.Bytes()) || !bytes.Equal(o.Bytes(), readCanonical(raw)) || checkUsage(raw) != nil || checkUsage(o.Bytes()) != nil {
		t.Errorf("%q is ordered as %s", raw, o.Bytes())
	}
	sent, ordered := Event{ID: "e", Source: "s", Type: TypeUsage, Data: Data{Usage: raw}}, Event{ID: "e", Source: "s", Type: TypeUsage}
	ordered.Data.SetUsage(o)
	value, err := EncodeReadable(ordered)
	if _, unread := Decode(value, nil); err != nil || unread != nil || !ordered.plain() || !bytes.Equal(value, Encode(sent)) {
		t.Errorf("%q makes the event %s: %v, %v", raw, value, err, unread)
	}
}

// Goal: names that are not wanted, and those that may be the same to a reader, are not put in order.
func TestOrderLooksAtNames(t *testing.T) {
	unwanted := func(name []byte) bool { return string(name) != "text" }
	for raw, want := range map[string]bool{`{"b":1,"a":"text"}`: true, `{"b":{"text":1}}`: false, `{"b":[{"text":1}]}`: false, `{"b":1,"B":2}`: false, `{"aB":1}`: false,
		`{"a":"B"}`: true, `[{"a":1}]`: false, `{"a":1,"a":2}`: false, `{"a":"\u0041"}`: false, `7`: false} {
		if _, ok := Order([]byte(raw), unwanted); ok != want {
			t.Errorf("%s: %v", raw, ok)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	for name, read := range map[string]func([]byte){
		"plain": func(raw []byte) { Order(raw, anyName) },
		"json":  func(raw []byte) { readCanonical(raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read([]byte(plainUsage))
			}
		})
	}
}
