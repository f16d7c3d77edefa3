package admission

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestDecodeStrict(t *testing.T) {
	for body, field := range map[string]string{
		`{"reservation_id":"r","nope":1}`: "nope", `{"reservation_id":5}`: "reservation_id", `{"estimate":{"input_tokens":"x"}}`: "input_tokens",
		`{"lease_seconds":1.5}`: "lease_seconds", `{`: "", ``: "", `[]`: "", `{} {}`: "", `{"lease_seconds":1e3}`: "lease_seconds",
		`{"estimate":[1]}`: "estimate", "{\"model\":\"\xff\"}{": "",
	} {
		var req reserveRequest
		p := decodeStrict([]byte(body), &req)
		if p == nil || p.Status != 400 || p.Field != field {
			t.Errorf("%s: %+v, want field %q", body, p, field)
		}
	}
}

func TestBodyBound(t *testing.T) {
	for size, ok := range map[int]bool{maxBody - 20: true, maxBody + 1: false} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"error_code":"`+strings.Repeat("x", size-20)+`"}   `))
		var req settleRequest
		if p := decode(httptest.NewRecorder(), r, &req, false); (p == nil) != ok {
			t.Errorf("%d bytes: %v", size, p)
		}
	}
	var req releaseRequest
	if p := decode(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), &req, true); p != nil {
		t.Errorf("an empty body: %v", p)
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "none": false, "NULL": false, "None1": true, "A-1_b.c:d": true, strings.Repeat("x", 128): true, "": false, strings.Repeat("x", 129): false, "a b": false, "a/b": false,
		"{a}": false, "ä": false, "a\x00": false, "a\n": false,
	} {
		if (checkID("id", id) == nil) != ok {
			t.Errorf("%q: want %v", id, ok)
		}
	}
}

// Whatever comes in, the answer is a value or a 400, and never a panic.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{`{}`, `{"reservation_id":"r","provider":"openai","model":"m","estimate":{"input_tokens":1}}`, `{"usage":{},"api":""}`,
		`{"meters":{"output_tokens":1e9999}}`, `{"receipt":"a.b"}`, `null`, `{"estimate":{"max_tokens":-1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var reserve reserveRequest
		if p := decodeStrict(body, &reserve); p == nil {
			if p := reserve.check(); p == nil {
				_, p := estimate(reserve.Estimate, flat())
				if p != nil && p.Status != 400 {
					t.Fatalf("%+v", p)
				}
			}
		}
		var settle settleRequest
		if p := decodeStrict(body, &settle); p == nil && settle.check() == nil {
			if c, p := chargeFor(settle, thirtyCents(), flatBook(), roomy()); p == nil && c.own.Nanos < 0 {
				t.Fatalf("negative charge: %+v", c)
			}
		}
	})
}
