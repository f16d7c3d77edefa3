package plainjson_test

import (
	"encoding/json"
	"testing"

	"github.com/weir-project/weir/pkg/domain/plainjson"
)

// Goal: what is usual is plain, and what is plain is JSON that ends where it is said to.
func FuzzValue(f *testing.F) {
	for _, raw := range []string{`{"a":[1,-2.5e-3,{"b":null}],"c":"x y"}`, `[]`, `0`, `true`, `""`} {
		if end := plainjson.Value([]byte(raw), 0, 0); end != len(raw) {
			f.Errorf("%s is plain up to %d", raw, end)
		}
		f.Add([]byte(raw))
	}
	for _, raw := range []string{`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":1e}`, `{"a":1,}`, `[1 2]`, `{"a" 1}`, `{"a":"\u0041"}`, `"é"`, `[[[[[[[[[[1]]]]]]]]]]`, `nul`, ` `, ``} {
		if end := plainjson.Value([]byte(raw), 0, 0); end >= 0 {
			f.Errorf("%s is plain up to %d", raw, end)
		}
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if end := plainjson.Value(raw, plainjson.Space(raw, 0), 0); end >= 0 && !json.Valid(raw[:end]) {
			t.Errorf("%q is not JSON up to %d", raw, end)
		}
	})
}
