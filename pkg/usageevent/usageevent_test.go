package usageevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
)

const plain = `{"specversion":"1.0","id":"e1","source":"app/1","type":"weir.usage.v1","subject":"acme","time":"2026-04-30T23:59:59.999Z",
 "data":{"provider":"openai","model":"gpt-4o","api":"chat","usage":{"prompt_tokens":10,"completion_tokens":2},"agent_id":"a1","status":"success"}}`

func headers(kv ...string) Header {
	return func(key string) ([]byte, bool) {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == key {
				return []byte(kv[i+1]), true
			}
		}
		return nil, false
	}
}

func TestBothModesReadTheSameEvent(t *testing.T) {
	want, err := Decode([]byte(plain), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want.ID != "e1" || want.Subject != "acme" || want.Data.Status != "SUCCESS" || want.Time.Nanosecond() != 999_000_000 {
		t.Fatalf("%+v", want)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal([]byte(plain), &body); err != nil {
		t.Fatal(err)
	}
	b64 := strings.Replace(plain, `"data":`+string(body["data"]), `"data_base64":"`+base64.StdEncoding.EncodeToString(body["data"])+`"`, 1)
	for name, c := range map[string]struct {
		value  string
		header Header
	}{
		"structured with header":       {plain, headers("content-type", "Application/CloudEvents+json; charset=utf-8")},
		"structured, repeated headers": {plain, headers("content-type", ContentType, "ce_id", "e1", "ce_subject", "acme")},
		"base64":                       {b64, nil},
		"binary": {string(body["data"]), headers("content-type", "application/json", "ce_specversion", "1.0", "ce_id", "e1",
			"ce_source", "app/1", "ce_type", "weir.usage.v1", "ce_subject", "acme", "ce_time", "2026-04-30T23:59:59.999Z")},
	} {
		got, err := Decode([]byte(c.value), c.header)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(plain, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(plain, old, new, 1)
	}
	for name, c := range map[string]struct {
		value  string
		header Header
		want   Reason
	}{
		"empty id":                  {with(`"id":"e1"`, `"id":""`), nil, NoID},              // field report 55
		"null id":                   {with(`"id":"e1"`, `"id":null`), nil, NoID},            // field report 56
		"None id":                   {with(`"id":"e1"`, `"id":"None"`), nil, NoID},          // field report 56
		"blank id":                  {with(`"id":"e1"`, `"id":"  "`), nil, NoID},            //
		"no id":                     {with(`"id":"e1",`, ``), nil, NoID},                    //
		"number id":                 {with(`"id":"e1"`, `"id":7`), nil, Malformed},          //
		"long id":                   {with(`e1`, strings.Repeat("x", 129)), nil, Malformed}, //
		"control in id":             {with(`e1`, `e\u0000`), nil, Malformed},                //
		"None response id":          {with(`"agent_id":"a1"`, `"response_id":"None"`), nil, NoID},
		"empty reservation id":      {with(`"agent_id":"a1"`, `"reservation_id":""`), nil, NoID},
		"empty token":               {with(`"agent_id":"a1"`, `"execution_token":""`), nil, Malformed},
		"undefined root":            {with(`"agent_id":"a1"`, `"root_execution_id":"undefined"`), nil, NoID},
		"no source":                 {with(`"source":"app/1",`, ``), nil, NoID},
		"None tenant":               {with(`"subject":"acme"`, `"subject":"None"`), nil, NoID},
		"old version":               {with(`"1.0"`, `"0.3"`), nil, Malformed},
		"other type":                {with(`weir.usage.v1`, `com.example.x`), nil, Malformed},
		"time":                      {with(`2026-04-30T23:59:59.999Z`, `yesterday`), nil, Malformed},
		"time far off":              {with(`2026-`, `9999-`), nil, Malformed},
		"id twice":                  {with(`"id":"e1"`, `"id":"e1","id":"e2"`), nil, Malformed},
		"usage and meters":          {with(`"agent_id"`, `"meters":{},"agent_id"`), nil, Malformed},
		"usage is a list":           {with(`{"prompt_tokens":10,"completion_tokens":2}`, `[1]`), nil, Malformed},
		"status":                    {with(`success`, `maybe`), nil, Malformed},
		"trailing text":             {plain + "x", nil, Malformed},
		"batch":                     {"[" + plain + "]", headers("content-type", "application/cloudevents-batch+json"), Malformed},
		"list":                      {"[" + plain + "]", nil, Malformed},
		"header differs":            {plain, headers("content-type", ContentType, "ce_id", "e2"), Malformed},
		"binary without a version":  {`{}`, headers("ce_id", "e1", "ce_source", "s", "ce_type", TypeUsage), Malformed},
		"binary that is not JSON":   {`hello`, headers("ce_id", "e1", "ce_specversion", "1.0", "ce_source", "s", "ce_type", TypeUsage), Malformed},
		"tombstone":                 {"", headers("ce_id", "e1"), Malformed},
		"not UTF-8":                 {with(`acme`, "\xff"), nil, Malformed},
		"too large":                 {strings.Repeat(" ", MaxBytes+1), nil, Oversized},
		"data missing":              {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1"}`, nil, Malformed},
		"data twice":                {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{},"data_base64":"e30="}`, nil, Malformed},
		"negative meter":            {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"meters":{"input_tokens":-1}}}`, nil, NegativeMeter},
		"meter is a text":           {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"meters":{"input_tokens":"many"}}}`, nil, Malformed},
		"meter name":                {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"meters":{"Input Tokens":1}}}`, nil, Malformed},
		"reservation with no time":  {with(`"agent_id":"a1"`, `"reservation":{"outcome":"settled"}`), headers("weir-signature", "x"), Malformed},
		"reservation, float amount": {with(`"agent_id":"a1"`, `"reservation":{"outcome":"settled","reserved_at":"2026-01-01T00:00:00Z","own_nanos":1.5}`), headers("weir-signature", "x"), Malformed},
		"reservation, odd flag":     {with(`"agent_id":"a1"`, `"reservation":{"outcome":"settled","reserved_at":"2026-01-01T00:00:00Z","flags":["cheap"]}`), headers("weir-signature", "x"), Malformed},
		"reservation, flag no list": {with(`"agent_id":"a1"`, `"reservation":{"outcome":"settled","reserved_at":"2026-01-01T00:00:00Z","flags":"dearer_model"}`), headers("weir-signature", "x"), Malformed},
		"cache hit of no kind":      {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"cache_hit":"maybe"}}`, nil, Malformed},
		"cache hit is a bool":       {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"cache_hit":true}}`, nil, Malformed},
		"cache hit with usage":      {with(`"agent_id":"a1"`, `"cache_hit":"exact"`), nil, Malformed},
		"cache hit with meters":     {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"cache_hit":"exact","meters":{"input_tokens":1}}}`, nil, Malformed},
		"cache hit that failed":     {`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"cache_hit":"semantic","status":"failed"}}`, nil, Malformed},
		"api key is a number":       {with(`"agent_id":"a1"`, `"api_key_id":7`), headers("weir-signature", "x"), Malformed},
		"reservation, 2^53":         {with(`"agent_id":"a1"`, `"reservation":{"outcome":"settled","reserved_at":"2026-01-01T00:00:00Z","own_nanos":9007199254740992}`), headers("weir-signature", "x"), Malformed},
	} {
		_, err := Decode([]byte(c.value), c.header)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.want || e.Detail == "" {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Goal: what only Weir may say is ignored from anybody else, however malformed; what can be read still tells two contents apart.
func TestWeirsOwnUnsigned(t *testing.T) {
	if signatureHeader != identity.SignatureHeader {
		t.Error(identity.SignatureHeader)
	}
	good, err := Decode([]byte(plain), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{`"reservation":{"x":1}`, `"reservation":7`, `"reservation":{"outcome":"settled","outcome":"late"}`, `"api_key_id":7`,
		`"api_key_id":"` + strings.Repeat("x", MaxID+1) + `"`} {
		ev, err := Decode([]byte(strings.Replace(plain, `"agent_id"`, own+`,"agent_id"`, 1)), nil)
		if err != nil || ev.Data.Reservation != nil || ev.Data.APIKeyID != "" || ContentHash(ev) != ContentHash(good) {
			t.Errorf("%.60s: %v, %+v", own, err, ev.Data)
		}
	}
}

func TestNullsAndStrings(t *testing.T) {
	ev, err := Decode([]byte(`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","traceparent":"00-x","data":{
		"meters":{"audio_seconds":"12.50","input_tokens":9007199254740993,"output_tokens":null},"parent_agent_id":"None","cost_center":null,"reservation_id":null,"extra":{"k":1}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := ev.Data.Meters["input_tokens"].String(); got != "9007199254740993" { // not through a double
		t.Errorf("input_tokens = %s", got)
	}
	if got := ev.Data.Meters["audio_seconds"].String(); got != "12.5" || len(ev.Data.Meters) != 2 {
		t.Errorf("meters = %v", ev.Data.Meters)
	}
	if ev.Data.ParentAgentID != "" || ev.Data.CostCenter != "" || ev.Data.Traceparent != "00-x" {
		t.Errorf("%+v", ev.Data)
	}
}

func full(t testing.TB) Event {
	usd, err := money.ParseUSD("0.0225")
	if err != nil {
		t.Fatal(err)
	}
	return Event{ID: "settle:r1:1700000000000000001", Source: SourceAdmission, Type: TypeUsage, Subject: "acme",
		Time: time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC),
		Data: Data{ExecutionToken: "t.o.k", RootExecutionID: "x1", ParentAgentID: "p", AgentID: "a", CostCenter: "sales & ops", Provider: "openai",
			Model: "gpt-4o", API: "chat", Usage: json.RawMessage(`{"b": 1.50, "a": {"y":2,"x":1}}`), ServiceTier: "flex", Status: "PARTIAL", ErrorCode: "cut",
			ReservationID: "r1", ResponseID: "resp", Traceparent: "00-…", Tracestate: "a=1",
			Reservation: &Reservation{ReservedAt: time.Date(2026, 11, 30, 1, 2, 0, 1, time.UTC), Outcome: OutcomeSettled, OwnMode: OwnModeDirect,
				OwnNanos: 22_500_000, HeldNanos: 30_000_000, Epoch: 1 << 51, EstimateUSD: &usd,
				Estimate: map[string]money.Decimal{"output_tokens": money.NewDecimal(5), "input_tokens": money.NewDecimal(7)}, PriceVersion: "v", Depth: 3}}}
}

func TestEncodeGolden(t *testing.T) {
	const want = `{"specversion":"1.0","id":"settle:r1:1700000000000000001","source":"weir/admission","type":"weir.usage.v1","subject":"acme","time":"2026-11-30T01:02:03.000000004Z","datacontenttype":"application/json","data":{"execution_token":"t.o.k","root_execution_id":"x1","parent_agent_id":"p","agent_id":"a","cost_center":"sales & ops","provider":"openai","model":"gpt-4o","api":"chat","usage":{"a":{"x":1,"y":2},"b":1.50},"service_tier":"flex","status":"PARTIAL","error_code":"cut","reservation_id":"r1","response_id":"resp","traceparent":"00-…","tracestate":"a=1","reservation":{"reserved_at":"2026-11-30T01:02:00.000000001Z","outcome":"settled","own_mode":"direct","own_nanos":22500000,"held_nanos":30000000,"epoch":2251799813685248,"estimate_usd":"0.0225","estimate":{"input_tokens":7,"output_tokens":5},"price_version":"v","depth":3}}}`
	if got := string(Encode(full(t))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The day of a reservation is read back, and is no part of the hash: whoever does not know of it books the same event.
func TestDayOfTheReservation(t *testing.T) {
	without, with := full(t), full(t)
	with.Data.Reservation.Day = 20261130
	back, err := Decode(Encode(with), nil)
	if err != nil || back.Data.Reservation.Day != 20261130 || ContentHash(with) != ContentHash(without) || with.Data.Reservation.Day == 0 {
		t.Errorf("%+v, %v", back.Data.Reservation, err)
	}
}

func TestRoundTripAndHash(t *testing.T) {
	ev := full(t)
	back, err := Decode(Encode(ev), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(Encode(back), Encode(ev)) || ContentHash(back) != ContentHash(ev) {
		t.Fatalf("round trip\n%s\n%s", Encode(ev), Encode(back))
	}
	var loose any // the same content with other white space and other order
	if err := json.Unmarshal([]byte(plain), &loose); err != nil {
		t.Fatal(err)
	}
	other, err := json.MarshalIndent(loose, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Decode([]byte(plain), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Decode(other, nil)
	if err != nil || ContentHash(a) != ContentHash(b) {
		t.Fatalf("re-encoded event has another hash (%v)", err)
	}
	b.Data.ExecutionToken = "fresh"
	if ContentHash(a) != ContentHash(b) {
		t.Error("a fresh token must not change the content")
	}
	b.Data.Model = "gpt-4o-mini"
	if ContentHash(a) == ContentHash(b) {
		t.Error("another model must change the content")
	}
}

// A cache hit and what admission saw of a settle are members beside the others: an event without them is encoded as ever, so
// the hashes of events from before they existed stand.
func TestCacheHitAndFlags(t *testing.T) {
	before := ContentHash(full(t))
	ev := full(t)
	ev.Data.Usage, ev.Data.Status, ev.Data.ErrorCode = nil, "SUCCESS", ""
	ev.Data.CacheHit, ev.Data.Reservation.Flags = CacheSemantic, []string{FlagDearerModel}
	const want = `"service_tier":"flex","cache_hit":"semantic","status":"SUCCESS",`
	if got := string(Encode(ev)); !strings.Contains(got, want) || !strings.HasSuffix(got, `"depth":3,"flags":["dearer_model"]}}}`) {
		t.Errorf("got %s", got)
	}
	for _, meters := range []map[string]money.Decimal{nil, {}, {"output_tokens": {}}} {
		ev.Data.Meters = meters
		back, err := Decode(Encode(ev), nil)
		if err != nil || !bytes.Equal(Encode(back), Encode(ev)) || back.Data.CacheHit != CacheSemantic || !reflect.DeepEqual(back.Data.Reservation.Flags, ev.Data.Reservation.Flags) {
			t.Errorf("meters %v: %v %+v", meters, err, back.Data)
		}
	}
	if ContentHash(ev) == before {
		t.Error("a cache hit is other content")
	}
	ev = full(t)
	ev.Data.Reservation.Flags = []string{}
	if ContentHash(ev) != before {
		t.Error("no flags are no member")
	}
}

func TestOwnEventsMayHaveLongIDs(t *testing.T) {
	ev := full(t)
	ev.ID = "unsettled:" + strings.Repeat("r", 128) + ":1700000000000000001"
	if _, err := Decode(Encode(ev), nil); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(plain), "", "")
	f.Add(Encode(full(f)), ContentType, "")
	f.Add([]byte(`{"meters":{"input_tokens":1}}`), "application/json", "e9")
	f.Add([]byte(`{"specversion":"1.0","id":"None"}`), "", "")
	f.Add([]byte(markerText), ContentType, "")
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","data":{"usage":{"n":1e999999999}}}`), "", "")
	f.Fuzz(func(t *testing.T, value []byte, contentType, id string) {
		h := Header(nil)
		if id != "" {
			h = headers("content-type", contentType, "ce_id", id, "ce_specversion", "1.0", "ce_source", "s", "ce_type", TypeUsage)
		} else if contentType != "" {
			h = headers("content-type", contentType)
		}
		ev, err := Decode(value, h)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Reason == "" {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if textOfNull(ev.ID) || textOfNull(ev.Source) {
			t.Fatalf("accepted identity %q %q", ev.Source, ev.ID)
		}
		back, err := Decode(Encode(ev), nil)
		if err != nil {
			t.Fatalf("%s does not decode: %v", Encode(ev), err)
		}
		if ContentHash(back) != ContentHash(ev) {
			t.Fatalf("hash changed: %s / %s", Encode(ev), Encode(back))
		}
	})
}
