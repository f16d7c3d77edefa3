package admission

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

func number(s string) money.Decimal {
	d, _ := money.ParseDecimal(s)
	return d
}

func dollars(s string) money.USD {
	d, _ := money.ParseUSD(s)
	return d
}

// flat costs one cent per token of any kind.
func flat() pricing.Version {
	v, _ := pricing.Version{Provider: "openai", Model: "flat", Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), PublishedAt: time.Unix(0, 0), Source: "test",
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: number("0.01")}, {Meter: usage.Output, USDPerUnit: number("0.01")}}}.Seal()
	return v
}

func flatBook() *pricing.Book {
	return pricing.NewBook(pricing.History{Provider: "openai", Model: "flat", Versions: []pricing.Version{flat()}})
}

func roomy() *tenant.Contract { return &tenant.Contract{Count: tenant.CountRaw} }

func thirtyCents() *subject {
	return &subject{tenant: "acme", id: "r1", reservedAt: time.Date(2026, 11, 30, 23, 59, 59, 123456000, time.UTC), epoch: 7,
		held: admit.Estimate{Nanos: 300_000_000, OutputTokens: 30}, direct: true,
		call: call{Provider: "openai", Model: "flat", EstimateUSD: dollars("0.3"), Meters: map[string]money.Decimal{"output_tokens": number("30")}, Root: "x", Agent: "a"}}
}

func TestChargeCountsWhatThePlanCounts(t *testing.T) {
	req := settleRequest{Meters: map[string]json.Number{"output_tokens": "40"}}
	billed := roomy()
	billed.Count = tenant.CountBilled
	billed.Markup, _ = money.ParsePercent("25")
	for _, c := range []struct {
		contract *tenant.Contract
		own      money.Nano
		overage  string
	}{{roomy(), 400_000_000, "0.1"}, {billed, 500_000_000, "0.2"}} {
		got, p := chargeFor(&req, thirtyCents(), flatBook(), c.contract)
		if p != nil || got.own.Nanos != c.own || got.overage.String() != c.overage || got.raw.String() != "0.4" || got.own.OutputTokens != 40 {
			t.Errorf("%+v, %v", got, p)
		}
	}
}

func TestChargeUnpricedKeepsTheHold(t *testing.T) {
	req := settleRequest{Meters: map[string]json.Number{"output_tokens": "1", "search_units": "1"}}
	got, p := chargeFor(&req, thirtyCents(), flatBook(), roomy())
	if p != nil || got.raw != nil || got.own.Nanos != 300_000_000 || got.estimated {
		t.Errorf("%+v, %v", got, p)
	}
}

// Goal: a provider's object in which nothing is known is missing usage, and the answer says that there was one; as it says that some
// of it is not known, or contradicts the rest.
func TestUnknownUsageIsFlagged(t *testing.T) {
	for _, c := range []struct {
		usage, api, status, flags string
		estimated                 bool
	}{
		{`{"tokens_in":3,"tokens_out":4}`, "chat.completions", "", "unknown_usage", true},
		{`{"id":"c1","choices":[{"text":"cut"}]}`, "chat.completions", statusPartial, "unknown_usage", true},
		{`{"prompt_tokens":3}`, "messages", "", "unknown_usage", true},
		{`{"tokens_in":3}`, "chat.completions", statusFailed, "unknown_usage", false},
		{` { } `, "chat.completions", "", "", true},
		{`null`, "chat.completions", "", "", true},
		{`{"prompt_tokens":3,"tokens_in":3}`, "chat.completions", "", "unknown_usage", false},
		{`{"promt_tokens":1200,"completion_tokens":5,"total_tokens":1205}`, "chat.completions", "", "total_mismatch unknown_usage", false},
		{`{"prompt_tokens":3,"completion_tokens":5,"total_tokens":9}`, "chat.completions", "", "total_mismatch", false},
		{`{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"queue_time":2}`, "chat.completions", "", "", false},
	} {
		got, p := chargeFor(&settleRequest{Usage: json.RawMessage(c.usage), API: c.api, Status: c.status}, thirtyCents(), flatBook(), roomy())
		if p != nil || got.estimated != c.estimated || strings.Join(got.flags, " ") != c.flags || c.estimated && got.raw.String() != "0.3" {
			t.Errorf("%s: %+v, %v", c.usage, got, p)
		}
	}
}

// Goal: no prompt and no completion leaves with an event, and the event costs what was answered. Method: what is passed
// on is read again, as the attributor reads it.
func TestNoContentGoesOn(t *testing.T) {
	const bare, text = `{"prompt_tokens":1,"completion_tokens":2}`, `"a secret answer"`
	for name, c := range map[string]struct {
		raw    string
		meters bool
	}{
		"bare":         {bare, false},
		"a response":   {`{"id":"c1","service_tier":"flex","choices":[{"message":{"content":` + text + `}}],"usage":` + bare + `}`, false},
		"large":        {`{"id":"c1","service_tier":"flex","other":"` + strings.Repeat("x", maxRawUsage) + `","usage":` + bare + `}`, true},
		"a stream":     {`{"stream":[{"id":"c1","choices":[{"delta":{"content":` + text + `}}],"usage":null},{"id":"c1","choices":[],"usage":` + bare + `}]}`, true},
		"large, bare?": {`{"prompt_tokens":1,"completion_tokens":2,"text":` + text + `}`, false},
	} {
		req := settleRequest{Usage: json.RawMessage(c.raw), API: "chat.completions", ServiceTier: "priority"}
		got, p := chargeFor(&req, thirtyCents(), flatBook(), roomy())
		if p != nil || got.raw.String() != "0.03" {
			t.Fatalf("%s: %+v, %v", name, got, p)
		}
		ev := got.event(&req, thirtyCents(), "id", usageevent.OutcomeSettled, "direct", got.own.Nanos, time.Unix(0, 0))
		if encoded := usageevent.Encode(ev); bytes.Contains(encoded, []byte("secret")) || (ev.Data.Meters != nil) != c.meters || (ev.Data.Usage == nil) != c.meters {
			t.Errorf("%s: %s", name, encoded)
		}
		want, err := usage.Normalise("openai", req.API, req.Usage)
		if err != nil {
			t.Fatal(err)
		}
		if c.meters {
			if ev.Data.ResponseID != want.ResponseID || want.ServiceTier != "" && ev.Data.ServiceTier != want.ServiceTier {
				t.Errorf("%s: lost what the object said: %+v", name, ev.Data)
			}
			continue
		}
		if again, err := usage.Normalise("openai", req.API, ev.Data.Usage); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: reads %+v, want %+v, %v", name, again, want, err)
		}
	}
}

// What is counted of what is billed is the sum of the billed lines, as the ledger adds them up: a markup on the sum of the list
// prices may round otherwise, and the nano-dollar between them would be external usage.
func TestChargeCountsBilledLines(t *testing.T) {
	version, err := pricing.Version{Provider: "openai", Model: "flat", Mode: "chat", Currency: "USD", EffectiveFrom: time.Unix(0, 0), PublishedAt: time.Unix(0, 0), Source: "test",
		Rates: []pricing.Rate{{Meter: usage.Input, USDPerUnit: number("1e-18")}, {Meter: usage.Output, USDPerUnit: number("1e-18")}}}.Seal()
	if err != nil {
		t.Fatal(err)
	}
	req := settleRequest{Meters: map[string]json.Number{"input_tokens": "3", "output_tokens": "1666666664"}} // in all 2e-9 with the markup, by the line 2.000000001e-9
	k := roomy()
	k.Count = tenant.CountBilled
	k.Markup, _ = money.ParsePercent("20")
	c, p := chargeFor(&req, thirtyCents(), pricing.NewBook(pricing.History{Provider: "openai", Model: "flat", Versions: []pricing.Version{version}}), k)
	if p != nil || c.billed.String() != "0.000000002000000001" || c.own.Nanos != 3 {
		t.Errorf("%+v, %v", c, p)
	}
}

// Goal: what admission writes, the attributor's decoder reads, and the ids are functions of the reservation alone.
func TestEventsDecode(t *testing.T) {
	s := thirtyCents()
	s.day = 20261130 // by whatever contract it was reserved
	req := settleRequest{Meters: map[string]json.Number{"output_tokens": "20"}, ResponseID: "resp-1"}
	c, p := chargeFor(&req, s, flatBook(), roomy())
	if p != nil {
		t.Fatal(p)
	}
	e := ending{req: req, subj: *s, charge: c, fingerprint: c.fingerprint(&req, s), now: time.Date(2026, 12, 1, 0, 1, 0, 0, time.UTC)}
	secret, err := identity.NewSecret(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	row, out, p := e.first(secret, "direct")
	if p != nil {
		t.Fatal(p)
	}
	ev, err := usageevent.Decode(out.Payload, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "settle:r1:1796083199123456000" || ev.ID != row.EventID || ev.Source != usageevent.SourceAdmission || ev.Data.ReservationID != "r1" ||
		!ev.Data.Reservation.ReservedAt.Equal(s.reservedAt) || ev.Data.Reservation.OwnNanos != 200_000_000 || ev.Data.ResponseID != "resp-1" ||
		ev.Data.Reservation.Day != s.day {
		t.Errorf("%+v %+v", ev, ev.Data.Reservation)
	}
	unsettled, err := usageevent.Decode(usageevent.Encode(s.unsettledEvent(usageevent.OwnModeDirect, e.now)), nil)
	if err != nil || unsettled.ID != "unsettled:r1:1796083199123456000" || unsettled.Data.Reservation.OwnNanos != 300_000_000 ||
		unsettled.Data.Reservation.OwnMode != usageevent.OwnModeDirect || unsettled.Data.RootExecutionID != "x" || unsettled.Data.Reservation.Day != s.day {
		t.Errorf("%+v, %v", unsettled, err)
	}
}

func TestFingerprintIsOfTheContent(t *testing.T) {
	s := thirtyCents()
	of := func(req settleRequest) string {
		c, p := chargeFor(&req, s, flatBook(), roomy())
		if p != nil {
			t.Fatal(p)
		}
		return string(c.fingerprint(&req, s))
	}
	base := settleRequest{Usage: json.RawMessage(`{"prompt_tokens":1, "completion_tokens":2}`), API: "chat.completions"}
	same := settleRequest{Usage: json.RawMessage(`{"completion_tokens":2,"prompt_tokens":1}`), API: "chat.completions", Status: "SUCCESS", Receipt: "whatever"}
	seen := map[string]string{of(base): "the same"}
	if of(base) != of(same) {
		t.Error("order, white space, the default status and the receipt are no content")
	}
	for name, change := range map[string]func(*settleRequest){
		"tokens": func(r *settleRequest) { r.Usage = json.RawMessage(`{"prompt_tokens":2,"completion_tokens":2}`) },
		"status": func(r *settleRequest) { r.Status = "PARTIAL" }, "error": func(r *settleRequest) { r.ErrorCode = "y" },
		"model": func(r *settleRequest) { r.Model = "other" }, "response": func(r *settleRequest) { r.ResponseID = "x" },
		"api": func(r *settleRequest) { r.API = "" }, "tier": func(r *settleRequest) { r.ServiceTier = "flex" },
		"traceparent": func(r *settleRequest) { r.Traceparent = "x" }, "tracestate": func(r *settleRequest) { r.Tracestate = "x" },
		"no usage": func(r *settleRequest) { r.Usage = nil }, "other members": func(r *settleRequest) { r.Usage = json.RawMessage(`{"prompt_tokens":1,"completion_tokens":2,"x":1}`) },
		"a cache hit": func(r *settleRequest) { r.Usage, r.CacheHit = nil, "exact" }, "another": func(r *settleRequest) { r.Usage, r.CacheHit = nil, "semantic" },
		"meters": func(r *settleRequest) { r.Usage, r.Meters = nil, quantities{"input_tokens": "1", "output_tokens": "2"} },
		"quantity": func(r *settleRequest) {
			r.Usage, r.Meters = json.RawMessage("null"), quantities{"input_tokens": "2", "output_tokens": "2"}
		},
		"meter": func(r *settleRequest) {
			r.Usage, r.Meters = nil, quantities{"input_audio_tokens": "1", "output_tokens": "2"}
		},
		"a member elsewhere": func(r *settleRequest) { r.Traceparent, r.ErrorCode = "", "x" }, "and there": func(r *settleRequest) { r.Traceparent, r.ErrorCode = "xx", "" },
	} {
		other := base
		change(&other)
		if at, known := seen[of(other)]; known && at != name {
			t.Errorf("%s is content, as %s is", name, at)
		}
		seen[of(other)] = name
	}
	for a, b := range map[*settleRequest]*settleRequest{
		{Meters: quantities{"output_tokens": "2"}}: {Meters: quantities{"output_tokens": "2.0", "input_tokens": "0"}, Model: "flat", Usage: json.RawMessage("null")},
		{ErrorCode: "a\nb"}:                        {ErrorCode: "a b", Status: statusSuccess},
	} {
		if of(*a) != of(*b) {
			t.Errorf("%+v and %+v say the same", a, b)
		}
	}
}

func TestEstimate(t *testing.T) {
	known := flat()
	known.MaxOutputTokens = 500
	embedding := flat()
	embedding.Mode = "embedding"
	for _, c := range []struct {
		name    string
		v       pricing.Version
		given   map[string]json.Number
		in, out int64
		field   string // of the refusal
	}{
		{"stated", known, map[string]json.Number{"input_tokens": "10", "max_output_tokens": "20"}, 10, 20, ""},
		{"field report 7: the larger of rivals", known, map[string]json.Number{"input_tokens": "10", "max_tokens": "1", "max_completion_tokens": "10000"}, 10, 10000, ""},
		{"field report 8: none stated", known, map[string]json.Number{"input_tokens": "50000"}, 50000, 500, ""},
		{"none stated, none known", flat(), map[string]json.Number{"input_tokens": "10"}, 0, 0, "estimate.max_output_tokens"},
		{"an embedding writes nothing", embedding, map[string]json.Number{"input_tokens": "10"}, 10, 0, ""},
		{"empty", known, nil, 0, 0, "estimate"},
		{"negative", known, map[string]json.Number{"input_tokens": "-1"}, 0, 0, "estimate.input_tokens"},
		{"a fraction", known, map[string]json.Number{"input_tokens": "1.5"}, 0, 0, "estimate.input_tokens"},
		{"unknown meter", known, map[string]json.Number{"input_tokens": "1", "nonsense": "1"}, 0, 0, "estimate"},
		{"beyond a counter", known, map[string]json.Number{"input_tokens": "9007199254740993"}, 0, 0, "estimate.input_tokens"},
	} {
		e, p := estimate(c.given, c.v)
		if c.field != "" {
			if p == nil || p.Field != c.field {
				t.Errorf("%s: %+v, %+v", c.name, e, p)
			}
			continue
		}
		if in, out := tokens(e); p != nil || in != c.in || out != c.out {
			t.Errorf("%s: %d, %d, %v", c.name, in, out, p)
		}
	}
}
