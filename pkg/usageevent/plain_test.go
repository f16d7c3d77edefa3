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
		if _, ok := Reordered([]byte(raw)); !ok {
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
		if got, ok := Reordered(raw); ok && !bytes.Equal(got, readCanonical(raw)) {
			t.Errorf("%q: %s, not %s", raw, got, readCanonical(raw))
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for name, read := range map[string]func([]byte){
		"plain": func(raw []byte) { Reordered(raw) },
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
