package admission

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

func TestDecodeStrict(t *testing.T) {
	for body, field := range map[string]string{
		`{"reservation_id":"r","nope":1}`: "nope", `{"reservation_id":5}`: "reservation_id", `{"estimate":{"input_tokens":"x"}}`: "estimate.input_tokens",
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

// Goal: what is of the wrong kind is told what it should be.
func TestWrongKindsSayWhatIsWanted(t *testing.T) {
	for body, want := range map[string]string{
		`{"reservations":{}}`: "reservations is an object, not an array.", `{"reservations":"x"}`: "reservations is a string, not an array.",
	} {
		if p := decodeStrict([]byte(body), &batchRequest{}); p == nil || p.Detail != want || p.Field != "reservations" {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Goal: a number that is not taken is named with its member, and with what is taken.
func TestNumbersSayWhatIsAllowed(t *testing.T) {
	for number, want := range map[string]string{"1e16": "from 0 to 9007199254740991", "1e-3": "from 0 to", "9007199254740992": "from 0 to 9007199254740991", "-1": "from 0 to", "0.5": "from 0 to"} {
		_, p := estimate(quantities{"input_tokens": json.Number(number)}, flat())
		if p == nil || p.Field != "estimate.input_tokens" || !strings.Contains(p.Detail, want) || !strings.Contains(p.Detail, number) {
			t.Errorf("%s: %+v", number, p)
		}
	}
	for _, number := range []string{"1000", "1000.0", "1e3", "1E+3", "0.1e4", "10000e-1"} { // as a settle takes them
		e, p := estimate(quantities{"input_tokens": json.Number(number), "max_output_tokens": "1"}, flat())
		if p != nil || e.InputTokens != 1000 || spelled(json.Number(number)) != "1000" {
			t.Errorf("%s: %+v %+v", number, e, p)
		}
	}
	_, p := estimate(quantities{"input_tokens": "1", "web_search_requests": "-1"}, flat())
	if p == nil || !strings.HasPrefix(p.Field, "estimate") {
		t.Errorf("another meter: %+v", p)
	}
	for _, p := range []*Problem{reserveRequest{ReservationID: "r", Provider: "p", Model: "m", LeaseSeconds: -1}.check(), extendRequest{LeaseSeconds: 86401}.check()} {
		if p == nil || p.Field != "lease_seconds" || !strings.Contains(p.Detail, "1 to 86400") {
			t.Errorf("%+v", p)
		}
	}
}

// Goal: no body can be read as two different requests.
func TestMembersAreExact(t *testing.T) {
	for _, c := range []struct {
		body, field string
		into        any
	}{
		{`{"reservation_id":"a1","reservation_id":"a2"}`, "reservation_id", &reserveRequest{}},
		{`{"reservation_id":"a1","reservation\u005fid":"a2"}`, "reservation_id", &reserveRequest{}},
		{`{"Reservation_ID":"a1"}`, "Reservation_ID", &reserveRequest{}},
		{`{"model":"a","MODEL":"b"}`, "MODEL", &reserveRequest{}},
		{`{"e\u017ftimate":{"input_tokens":1}}`, "eſtimate", &reserveRequest{}},
		{`{"estimate":{"input_tokens":1,"input_tokens":9}}`, "estimate.input_tokens", &reserveRequest{}},
		{`{"estimate":{},"estimate":null}`, "estimate", &reserveRequest{}},
		{`{"meters":{"output_tokens":1,"output\u005ftokens":2}}`, "meters.output_tokens", &settleRequest{}},
		{`{"usage":{},"Usage":{}}`, "Usage", &settleRequest{}},
		{`{"receipt":"a","receipt":"a"}`, "receipt", &releaseRequest{}},
		{`{"lease_seconds":1,"lease_seconds":2}`, "lease_seconds", &extendRequest{}},
		{`{"agent_id":"a","AGENT_ID":"b"}`, "AGENT_ID", &executionRequest{}},
		{`{"reservations":[],"Reservations":[]}`, "Reservations", &batchRequest{}},
		{`{"reservations":[],"reservations":[]}`, "reservations", &batchRequest{}},
		{`{"execution_token":""}`, "execution_token", &reserveRequest{}},
		{`{"execution_token":1}`, "execution_token", &reserveRequest{}},
		{`{"agent_id":"a","parent_token":""}`, "parent_token", &executionRequest{}},
	} {
		if p := decodeStrict([]byte(c.body), c.into); p == nil || p.Status != 400 || p.Field != c.field {
			t.Errorf("%s: %+v, want field %q", c.body, p, c.field)
		}
	}
	for _, body := range []string{`{}`, `null`, `{"execution_token":null}`, `{"estimate":null,"model":"\u0061"}`, plainReserve} {
		if p := decodeStrict([]byte(body), &reserveRequest{}); p != nil {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Goal: a provider's object that says something twice is refused, over HTTP however its body is read, and over gRPC.
func TestUsageSaysNothingTwice(t *testing.T) {
	for usage, ok := range map[string]bool{
		`{"prompt_tokens":1,"completion_tokens":2}`:                                    true,
		`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":0}`:              false,
		`{"id":"a","usage":{"prompt_tokens":1,"prompt_tokens_details":{"x":1,"x":2}}}`: false,
		`{"prompt_tokens":1,"Prompt_Tokens":2}`:                                        false,
		`{"choices":[{"text":"\"","a":1,"A":2}],"usage":{"prompt_tokens":1}}`:          true,
		`{"choices":[{"text":"\""}],"usage":{"prompt_tokens":1,"prompt_tokens":2}}`:    false,
		`null`: true,
	} {
		for how, body := range map[string]string{"quickly": `{"usage":` + usage + `}`, "by encoding/json": `{"status":"\u0053UCCESS","usage":` + usage + `}`} {
			if p := decodeStrict([]byte(body), new(settleRequest)); (p == nil) != ok || p != nil && (p.Field != "usage" || p.Status != 400 || !strings.Contains(p.Detail, "twice")) {
				t.Errorf("%s %s: %+v", how, usage, p)
			}
		}
		if _, p := settleRequestOf(&admissionv1.SettleRequest{Usage: []byte(usage)}); (p == nil) != ok || p != nil && (p.Field != "usage" || !strings.Contains(p.Detail, "twice")) {
			t.Errorf("gRPC %s: %+v", usage, p)
		}
	}
}

func TestBodyBound(t *testing.T) {
	for size, ok := range map[int]bool{maxBody - 20: true, maxBody + 1: false} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"error_code":"`+strings.Repeat("x", size-20)+`"}   `))
		var req settleRequest
		if p := (&Service{}).decode(httptest.NewRecorder(), r, &req, false); (p == nil) != ok {
			t.Errorf("%d bytes: %v", size, p)
		}
	}
	var req releaseRequest
	if p := (&Service{}).decode(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), &req, true); p != nil {
		t.Errorf("an empty body: %v", p)
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "none": false, "NULL": false, "None1": true, "A-1_b.c:d": true, strings.Repeat("x", 128): true, "": false, strings.Repeat("x", 129): false, "a b": false, "a/b": false,
		"{a}": false, "ä": false, ".": false, "..": false, "...": false, ".a": true, "..a..": true, strings.Repeat(".", 128): false, "a\x00": false, "a\n": false,
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
			if c, p := chargeFor(&settle, thirtyCents(), flatBook(), roomy()); p == nil && c.own.Nanos < 0 {
				t.Fatalf("negative charge: %+v", c)
			}
		}
	})
}
