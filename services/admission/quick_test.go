package admission

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/usageevent"
)

const (
	plainReserve = `{"reservation_id":"call-1","provider":"openai","model":"gpt-4o","estimate":{"input_tokens":900,"max_output_tokens":300},` +
		`"effect":"read","lease_seconds":120,"execution_token":"eyJhbGciOi.J9.x-_"}`
	plainSettle = `{"usage":{"prompt_tokens":880,"completion_tokens":210,"prompt_tokens_details":{"cached_tokens":128},"id":"a\"}b"},` +
		`"api":"chat.completions","status":"SUCCESS"}`
)

// slowly is what encoding/json makes of a body.
func slowly(body string, into any) bool {
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if dec.Decode(into) != nil {
		return false
	}
	_, err := dec.Token()
	return err == io.EOF
}

func quickly(body string, into quick) bool { return decodeQuickly([]byte(body), body, into) }

// Goal: a plain request is read quickly.
func TestPlainIsQuick(t *testing.T) {
	if !quickly(plainReserve, &reserveRequest{}) || !quickly(plainSettle, &settleRequest{}) ||
		!quickly(" {\n \"estimate\" : { \"input_tokens\" : 0 } } ", &reserveRequest{}) {
		t.Error("a plain request is not")
	}
}

// Goal: whatever is read quickly, encoding/json reads the same.
func FuzzQuick(f *testing.F) {
	for _, body := range []string{plainReserve, plainSettle, `{}`, `{"estimate":{}}`, `{"model":"a","model":"b"}`, `{"Model":"a"}`, `{"model":"\u0041"}`,
		`{"lease_seconds":012}`, `{"lease_seconds":1.5}`, `{"lease_seconds":1e3}`, `{"lease_seconds":9223372036854775808}`, `{"lease_seconds":-1}`,
		`{"lease_seconds":"1"}`, `{"lease_seconds":1}{}`, `{"lease_seconds":1},`, `{"model":null}`, `{"usage":null}`, `{"usage":{"a":}}`, `{"usage":{"a":"}"}}`,
		`{"usage":[{"a":1}]}`, `{"usage":"x"}`, `{"usage":{}}`, `{"usage":{"a":"\\"}}`, `{"meters":{"output_tokens":1,"output_tokens":2}}`,
		`{"meters":{"output_tokens":"1"}}`, `{"estimate":{"input_tokens":1,}}`, `{"receipt":"a.b","response_id":"r"`, "{\"model\":\"\xff\"}", "[]", "null", ""} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, pair := range [][2]any{{&reserveRequest{}, &reserveRequest{}}, {&settleRequest{}, &settleRequest{}}} {
			if !quickly(body, pair[0].(quick)) {
				continue
			}
			read := slowly(body, pair[1])
			if quick, ok := pair[0].(*settleRequest); ok {
				inOrder(t, quick, pair[1].(*settleRequest))
			}
			if !read || !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%q\n%+v\n%+v", body, pair[0], pair[1])
			}
		}
	})
}

// inOrder: what was put in order while it was read is what Order makes of it; the other request gets the same.
func inOrder(t *testing.T, quick, slow *settleRequest) {
	if quick.ordered.Bytes() == nil {
		return
	}
	if want, ok := usageevent.Order(slow.Usage, isUsage); !ok || usageevent.CheckUsage(slow.Usage) != nil || !bytes.Equal(want.Bytes(), quick.Usage) {
		t.Errorf("%s was put in order: %s", slow.Usage, quick.Usage)
	}
	slow.Usage, slow.ordered = quick.Usage, quick.ordered
}

func BenchmarkDecodeReserve(b *testing.B) {
	for name, read := range map[string]func(string, *reserveRequest) bool{
		"quick": func(s string, r *reserveRequest) bool { return quickly(s, r) },
		"json":  func(s string, r *reserveRequest) bool { return slowly(s, r) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !read(plainReserve, &reserveRequest{}) {
					b.Fatal("not read")
				}
			}
		})
	}
}
