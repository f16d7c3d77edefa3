package admission

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
	"github.com/weir-project/weir/pkg/usageevent/consumed"
)

// awkward are texts that programs send: ordinary ones, those of nothing, those that no topic takes, and long ones.
func awkward(t *rapid.T, name string) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "", "a", "r-1:x", "None", "null", "NULL", " nil ", "<nil>", "undefined", "NaN", "HTTP 500\nTraceback", "\x00", "\x7f", "a b", "ä😀", "\u2028",
			"chat.completions", "messages", "flex", "batch", "tenant_id=other", "tenant_id=acme,cost_center=a%0Ab", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}),
		rapid.String(),
		rapid.Map(rapid.IntRange(100, 9000), func(n int) string { return strings.Repeat("x", n) }),
	).Draw(t, name)
}

var awkwardUsage = []string{"", "null", "{}", `{"prompt_tokens":0,"completion_tokens":0}`, `{"prompt_tokens":7,"completion_tokens":3}`, `{"prompt_tokens":7,"Prompt_Tokens":9}`,
	`{"prompt_tokens":7,"prompt_tokens":8,"completion_tokens":1}`, `{"id":"None","service_tier":"a\nb","usage":{"prompt_tokens":7},"choices":[1]}`,
	`{"stream":[{"id":"None","usage":{"prompt_tokens":7}}]}`, `{"stream":[{"id":"a\u0000b","usage":{"prompt_tokens":7,"completion_tokens":2},"service_tier":"a\nb"}]}`, `{"stream":[{"usage":{"prompt_tokens":0}}]}`,
	`{"prompt_tokens":1,"pad":"` + strings.Repeat("x", maxRawUsage) + `","service_tier":"` + strings.Repeat("y", 200) + `"}`,
	`{"prompt_tokens":1,"a":{"a":1,"a":2},"a":3}`, `{"id":7,"model":"a\nb","prompt_tokens":1}`, `"x"`, `[1]`, `{"prompt_tokens":9007199254740991}`}

// Goal (I4): whatever passes the checks of reserve and settle reaches the bill: the event decodes, the ledger takes it, and
// costs what was answered. Method: every text that an event carries is drawn from what programs send by mistake.
func TestAcceptedMeansBooked(t *testing.T) {
	secret, err := identity.NewSecret(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return awkward(t, name) }
		// One text at a time is awkward, so that not everything is refused.
		reserve := reserveRequest{ReservationID: "r1", Provider: "openai", Model: "flat", Estimate: quantities{"input_tokens": "10", "max_output_tokens": "20"}}
		if at := rapid.IntRange(0, 8).Draw(t, "reserved"); at < 6 {
			*[...]*string{&reserve.ReservationID, &reserve.AgentID, &reserve.ParentAgentID, &reserve.CostCenter, &reserve.Provider, &reserve.Model}[at] = text("reserve")
		}
		x := executionRequest{RootExecutionID: rapid.SampledFrom([]string{"", "x1"}).Draw(t, "root"), AgentID: "lead", CostCenter: rapid.SampledFrom([]string{"", "sales", "None", "a\nb"}).Draw(t, "cost center")}
		if reserve.check() != nil || x.check() != nil {
			return
		}
		reserve.Provider = usage.ProviderName(reserve.Provider)
		e, p := estimate(reserve.Estimate, flat())
		if p != nil {
			t.Fatal(p)
		}
		s := &subject{tenant: "acme", id: reserve.ReservationID, reservedAt: time.Date(2026, 11, 30, 23, 59, 59, 123456000, time.UTC), epoch: 7, held: admit.Estimate{Nanos: 300_000_000}, direct: true,
			call: call{Provider: reserve.Provider, Model: reserve.Model, EstimateUSD: dollars("0.3"), Meters: meters(e), PriceVersion: flat().ID, Root: x.RootExecutionID,
				ParentAgent: reserve.ParentAgentID, Agent: reserve.AgentID, CostCenter: cmp.Or(x.CostCenter, reserve.CostCenter)}}
		for range 80 { // enough that chance does not leave too few
			if settled(t, secret, s) {
				accepted++
			}
		}
	})
	if accepted < 200 {
		t.Errorf("only %d of the requests were accepted: the generator proves nothing", accepted)
	}
}

// settled settles once, somehow; false if that is refused.
func settled(t *rapid.T, secret identity.Secret, s *subject) bool {
	text := func(name string) string { return awkward(t, name) }
	settle := settleRequest{Status: rapid.SampledFrom([]string{"", "SUCCESS", "FAILED", "PARTIAL"}).Draw(t, "status")}
	for range rapid.IntRange(0, 2).Draw(t, "texts") {
		*rapid.SampledFrom([]*string{&settle.API, &settle.ErrorCode, &settle.Model, &settle.ServiceTier, &settle.ResponseID, &settle.Traceparent, &settle.Tracestate}).Draw(t, "settled") = text("settle")
	}
	if raw := rapid.SampledFrom(awkwardUsage).Draw(t, "usage"); raw != "" {
		settle.Usage = json.RawMessage(raw)
	}
	if !given(settle.Usage) {
		settle.Meters = rapid.SampledFrom([]quantities{nil, {}, {"output_tokens": "0"}, {"input_tokens": "3", "output_tokens": "4"}, {"search_units": "1"}, {"output_tokens": "1e3"}}).Draw(t, "meters")
	}
	if settle.check() != nil || ofTenant("acme", settle.Traceparent, settle.Tracestate) != nil {
		return false
	}
	c, p := chargeFor(&settle, s, flatBook(), roomy())
	if p != nil {
		return false
	}
	end := ending{req: settle, subj: *s, charge: c, now: s.reservedAt.Add(time.Minute)}
	row, event, p := end.first(secret, "direct")
	if p != nil {
		t.Fatalf("%s: %v", event.Payload, p)
	}
	ev, err := usageevent.Decode(event.Payload, nil)
	if err != nil || ev.ID != row.EventID {
		t.Fatalf("%s: %v", event.Payload, err)
	}
	entry := booked(t, ev)
	if c.raw == nil != (entry.Raw == nil) || c.raw != nil && entry.Raw.Cmp(*c.raw) != 0 || c.billed != nil && entry.Billed.Cmp(*c.billed) != 0 {
		t.Fatalf("answered %v, booked %v: %s", c.raw, entry.Raw, event.Payload)
	}
	if entry.External != 0 || entry.Own != c.own.Nanos || entry.OutputTokens != c.own.OutputTokens && !c.estimated {
		t.Fatalf("counted %+v, booked own %d external %d: %s", c.own, entry.Own, entry.External, event.Payload)
	}
	unsettled := signed(secret, s.unsettledEvent(usageevent.OwnModeDirect, end.now))
	if ev, err = usageevent.Decode(unsettled.Payload, nil); err != nil {
		t.Fatalf("%s: %v", unsettled.Payload, err)
	}
	booked(t, ev)
	return true
}

// booked makes the ledger's entry of an event, as the attributor does.
func booked(t *rapid.T, ev usageevent.Event) ledger.Entry {
	d := ev.Data
	if lineage.Read(d.Traceparent, d.Tracestate).Contradicts(ev.Subject) {
		t.Fatalf("put aside: %q", d.Tracestate)
	}
	r := d.Reservation
	f := ledger.Facts{Message: ledger.Settle, Tenant: ev.Subject, Source: ev.Source, EventID: ev.ID, ContentHash: sha256.Sum256(nil), EventTime: ev.Time, RecordedAt: ev.Time, Location: time.UTC,
		Provider: d.Provider, Model: d.Model, Status: ledger.Status(d.Status), ReservationID: d.ReservationID,
		Hold: &ledger.Hold{ReservedAt: r.ReservedAt, OwnMode: ledger.OwnMode(r.OwnMode), Own: r.OwnNanos, Held: r.HeldNanos, EstimateUSD: r.EstimateUSD, PriceVersion: r.PriceVersion}}
	switch r.Outcome {
	case usageevent.OutcomeUnsettled:
		f.Message = ledger.Expiry
	case usageevent.OutcomeEstimated:
		f.Message = ledger.Estimate
	}
	u, err := consumed.Usage(d)
	if err != nil {
		t.Fatalf("%+v: %v", d, err)
	}
	if d.Status == statusFailed {
		u = u.Failed()
	}
	f.InputTokens, f.OutputTokens, f.Meters = u.InputTokens(), u.OutputTokens(), u.Meters
	if v, _, err := flatBook().At(d.Provider, d.Model, r.ReservedAt); u.Missing() {
		if d.Status != statusFailed {
			t.Fatalf("no usage and not failed: %+v", d)
		}
		f.Costing = &pricing.Costing{}
	} else if err == nil {
		if costing, err := pricing.Cost(v, u, pricing.Options{ServiceTier: d.ServiceTier}); err == nil {
			f.Costing = &costing
		}
	}
	c, err := ledger.NewCandidate(f)
	if err != nil {
		t.Fatalf("%+v: %v", d, err)
	}
	return c.Entry
}

// Goal: a failed call settles no output cost, and what is missing is not free; what is zero is.
func TestChargeByStatus(t *testing.T) {
	both := json.RawMessage(`{"prompt_tokens":3,"completion_tokens":7}`)
	for _, c := range []struct {
		name      string
		req       settleRequest
		raw       string
		estimated bool
	}{
		{"failed with output", settleRequest{Status: "FAILED", Usage: both}, "0.03", false},
		{"failed with output, by meters", settleRequest{Status: "FAILED", Meters: quantities{"input_tokens": "3", "output_tokens": "7", "output_reasoning_tokens": "5"}}, "0.03", false},
		{"failed, output only", settleRequest{Status: "FAILED", Meters: quantities{"output_tokens": "7"}}, "0", false},
		{"failed, nothing said", settleRequest{Status: "FAILED"}, "0", false},
		{"failed, no meters", settleRequest{Status: "FAILED", Meters: quantities{}}, "0", false},
		{"success, no meters", settleRequest{Status: "SUCCESS", Meters: quantities{}}, "0.3", true},
		{"success, empty usage", settleRequest{Usage: json.RawMessage(`{}`)}, "0.3", true},
		{"success, null usage", settleRequest{Usage: json.RawMessage(`null`)}, "0.3", true},
		{"success, nothing said", settleRequest{}, "0.3", true},
		{"partial, no meters", settleRequest{Status: "PARTIAL", Meters: quantities{}}, "0.3", true},
		{"a cache hit", settleRequest{Meters: quantities{"output_tokens": "0"}}, "0", false},
		{"a cache hit, as usage", settleRequest{Usage: json.RawMessage(`{"prompt_tokens":0,"completion_tokens":0}`)}, "0", false},
		{"null usage beside meters", settleRequest{Usage: json.RawMessage(`null`), Meters: quantities{"output_tokens": "1"}}, "0.01", false},
	} {
		got, p := chargeFor(&c.req, thirtyCents(), flatBook(), roomy())
		if p != nil || got.raw == nil || got.raw.String() != c.raw || got.estimated != c.estimated {
			t.Errorf("%s: %+v, %v", c.name, got, p)
			continue
		}
		if want := dollars(c.raw); got.own.Nanos.USD().Cmp(want) != 0 || got.billed.Cmp(want) != 0 {
			t.Errorf("%s: counts %v, billed %v", c.name, got.own, got.billed)
		}
	}
}

// Goal: errors speak the API's language: which member, what is wanted, nothing of Go, one line.
func TestDecodeErrors(t *testing.T) {
	leak := regexp.MustCompile(`\bGo\b|admission\.|money\.|json:|struct|int64|unmarshal|\*|\n`)
	for body, want := range map[string]string{
		`[]`:                      "The body is an array, not an object.",
		`"x"`:                     "The body is a string, not an object.",
		`{"reservation_id":5}`:    "reservation_id is a number, not a string.",
		`{"lease_seconds":1.5}`:   "lease_seconds is 1.5, not a whole number of 64 bits, written in digits.",
		`{"lease_seconds":"x"}`:   "lease_seconds is a string, not a whole number.",
		`{"estimate":"x"}`:        "estimate is a string, not an object.",
		`{"estimate":{"a":true}}`: "estimate.a is not a number.",
		`{"estimate":{"a":""}}`:   "estimate.a is not a number.",
		`{"x":1}`:                 `Unknown field "x".`,
		`{`:                       "The body is not a whole JSON object.",
		`{]`:                      "The body is not valid JSON.",
	} {
		p := decodeStrict([]byte(body), &reserveRequest{})
		if p == nil || p.Detail != want || leak.MatchString(p.Detail) {
			t.Errorf("%s: %v, want %s", body, p, want)
		}
	}
	for body, want := range map[string]string{
		`{"max_cost_usd":5}`:   "max_cost_usd is a number, not a string with an amount in US dollars.",
		`{"max_cost_usd":"x"}`: notLimit,
		`{"max_depth":true}`:   "max_depth is true or false, not a whole number.",
	} {
		p := decodeStrict([]byte(body), &executionRequest{})
		if p == nil || p.Field == "" || p.Detail != want || leak.MatchString(p.Detail) {
			t.Errorf("%s: %+v, want %s", body, p, want)
		}
	}
}

// Goal: a cut names its own window, and no rate keeps anybody waiting beyond the minute that frees it.
func TestCutsAndWaits(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for limit, want := range map[admit.Limit]string{admit.LimitMinute: "This minute's budget", admit.LimitDay: "Today's budget", admit.LimitMonth: "This month's budget"} {
		p := refused(admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: limit, At: at, FreesAt: at.Add(time.Second)}, caller{contract: plan()}, time.UTC)
		if !strings.HasPrefix(p.Message, want+" is used up") || p.RetryAfterMS != 0 {
			t.Errorf("%s: %q", limit, p.Message)
		}
	}
	for _, wait := range []time.Duration{0, time.Second, 40 * time.Second, 61 * time.Second, time.Hour} {
		for range 200 {
			p := refused(admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitInputTokens, At: at, FreesAt: at.Add(wait)}, caller{contract: plan()}, time.UTC)
			if got := time.Duration(p.RetryAfterMS) * time.Millisecond; got < min(wait, time.Minute) || got > 65*time.Second || got > max(wait, time.Second)+maxJitter {
				t.Fatalf("frees in %s: wait %s", wait, got)
			}
		}
	}
}
