//go:build integration

package admission

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/usageevent"
)

// What a first user meets.

// Goal: a tenant that never reserved anything is told that there is no such reservation, and nothing is made for the asking;
// a tenant whose counters are lost is still told to wait.
func TestNothingReservedIsNotFound(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "used": contract()})
	r := w.start()
	status, out := r.reserve("used", "u1", 1)
	w.want("reserve", status, out, 201)
	ask := func(who string, want int, code string) {
		t.Helper()
		for _, c := range []struct {
			method, path string
			body         any
		}{{"GET", "", nil}, {"POST", "/settle", object{"meters": object{"output_tokens": 1}}}, {"POST", "/release", nil}, {"POST", "/extend", nil}} {
			status, out, _ := r.do(c.method, "/v1/reservations/x"+c.path, w.keys[who], c.body)
			w.want(who+" "+c.path, status, out, want, "code", code)
		}
	}
	ask("acme", 404, "reservation_not_found")
	known, err := r.svc.rows.HasReserved(t.Context(), "acme")
	if err != nil || known {
		t.Errorf("asking made a state: %v %v", known, err)
	}
	ask("used", 404, "reservation_not_found")
	w.redisCommand("DEL w:{used}:s")
	ask("used", 503, "budget_store_recovering")
}

// Goal: a replica that refuses everybody is not ready, so that it gets no traffic and somebody looks.
func TestEmptiedIsNotReady(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	notReady := func(what string) {
		t.Helper()
		w.eventually(what, func() error {
			status, out, _ := r.do("GET", "/readyz", "", nil)
			why, _ := out["not_ready"].(object)
			if status != 503 || why["epoch"] == nil {
				return fmt.Errorf("%d %v", status, out)
			}
			return nil
		})
	}
	foreign := []string{"4712", "4503599627370495"} // ahead of Postgres, or another Weir's: nothing is touched
	meets := func(n int) time.Duration {
		begin := time.Now()
		w.redisCommand("SET w:epoch " + foreign[n%2])
		notReady("epoch " + foreign[n%2])
		took := time.Since(begin)
		w.redisCommand("SET w:epoch 4711")
		w.eventually("the epoch is back", func() error {
			if status, out, _ := r.do("GET", "/readyz", "", nil); status != 200 {
				return fmt.Errorf("%d %v", status, out)
			}
			return nil
		})
		return took
	}
	meets(1)
	w.within("it is noticed", 3*time.Second, meets)
	if row := w.epochNow(); row.Epoch != 4711 {
		t.Errorf("a Redis that is not ours was taken over: %+v", row)
	}
	w.redisCommand("FLUSHALL")
	notReady("emptied")
}

// Goal: whatever was said about a settle, it is answered 4xx or reaches the bill. Method: the fields that an event carries,
// with texts that programs send by mistake; each event of a 200 is decoded.
func TestSettledMeansReadable(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	n := 0
	for _, c := range []struct {
		member, value string
		status        int
	}{
		{"error_code", "HTTP 500\nTraceback", 200}, {"error_code", strings.Repeat("é", 1000), 200}, {"response_id", "None", 400}, {"response_id", "a\tb", 400},
		{"service_tier", "fl\x00ex", 400}, {"service_tier", strings.Repeat("x", 129), 400}, {"api", strings.Repeat("x", 129), 400}, {"traceparent", "a\nb", 400},
		{"tracestate", "a\rb", 400}, {"tracestate", strings.Repeat("x", 513), 200}, {"tracestate", "tenant_id=other", 403},
	} {
		id := fmt.Sprintf("t%d", n)
		n++
		status, out := r.reserve("acme", id, 1)
		w.want("reserve", status, out, 201)
		status, out = r.settle("acme", id, object{"meters": object{"output_tokens": 1}, "traceparent": trace, c.member: c.value})
		w.want(fmt.Sprintf("%s %.20q", c.member, c.value), status, out, c.status)
		if status >= 400 && out["field"] != c.member {
			t.Errorf("%s: field %v", c.member, out["field"])
		}
	}
	for _, id := range []string{"None", "null", "NULL", "nil", "undefined", "NaN"} {
		status, out := r.reserve("acme", id, 1)
		w.want(id, status, out, 400, "field", "reservation_id")
		status, out, _ = r.do("POST", "/v1/executions", w.keys["acme"], object{"root_execution_id": id, "agent_id": "a"})
		w.want(id, status, out, 400, "field", "root_execution_id")
	}
	for _, row := range w.outboxRows() {
		if _, err := usageevent.Decode(row.payload, nil); err != nil {
			t.Errorf("%s: %v", row.payload, err)
		}
	}
}

// Goal: after a late settle everybody is told the same story.
func TestLateIsSettled(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	release := func() (int, object) {
		status, out, _ := r.do("POST", "/v1/reservations/r1/release", w.keys["acme"], nil)
		return status, out
	}
	r.reserve("acme", "r1", 30)
	status, out := release()
	w.want("release", status, out, 200, "state", "released")
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 10}})
	w.want("late", status, out, 200, "late", "true")
	status, out, _ = r.do("GET", "/v1/reservations/r1", w.keys["acme"], nil)
	w.want("state", status, out, 200, "state", "settled", "late", "true", "cost_usd", "0.1")
	const story = "The reservation was released, and its usage was settled late."
	status, out = release()
	w.want("release again", status, out, 409, "state", "settled", "detail", story)
	status, out, _ = r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], nil)
	w.want("extend", status, out, 409, "state", "settled", "detail", story)
	status, out = r.settle("acme", "r1", object{"meters": object{"output_tokens": 11}})
	w.want("settle otherwise", status, out, 409, "state", "settled", "detail", story+" The one late figure was taken with other content.")
}

// Goal: figures of one answer have one basis each, named, and what is not known or not limited is null, not zero.
func TestFiguresSayWhatTheyAre(t *testing.T) {
	k := contract()
	k.Count, k.Markup = tenant.CountBilled, percent("25")
	w := newWorld(t, one(k))
	r := w.start()
	r.reserve("acme", "r1", 30)
	status, out := r.settle("acme", "r1", object{"meters": object{"output_tokens": 40}})
	w.want("settle", status, out, 200, "cost_usd", "0.4", "billed_usd", "0.5", "reserved_usd", "0.375", "overage_usd", "0.125")
	b := r.budget("acme")
	windows := b["windows"].(object)
	if _, known := windows["minute"].(object)["held_usd"]; known {
		t.Errorf("the minute does not know what is held: %v", windows["minute"])
	}
	if windows["day"].(object)["held_usd"] != "0" {
		t.Errorf("%v", windows["day"])
	}
	limits := b["limits"].(object)
	if l := limits["requests_per_minute"].(object); l["limit"] != nil || l["remaining"] != nil || fmt.Sprint(l["used"]) != "1" {
		t.Errorf("no limit is %v", l)
	}
	if l := limits["concurrency"].(object); l["limit"] != json.Number("1000") || l["remaining"] != json.Number("1000") {
		t.Errorf("concurrency %v", l)
	}
}

// Goal: errors speak the API's language on the wire, in one line; a body above the bound is 413.
func TestErrorsOnTheWire(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	r.reserve("acme", "r1", 30)
	leak := regexp.MustCompile(`\bGo\b|admission\.|usage\.|money\.|json:|struct|int64|unmarshal|\*|%!|\n|\{total`)
	for path, bodies := range map[string][]string{
		"/v1/reservations":           {`[]`, `"x"`, `5`, `{"reservation_id":5}`, `{"estimate":"x"}`, `{"estimate":{"input_tokens":"x"}}`, `{"estimate":[]}`, `{"lease_seconds":"x"}`, `{"lease_seconds":1.5}`, `{`, `}`, "{\"a\nb\":1}"},
		"/v1/executions":             {`{"agent_id":"a","max_cost_usd":5}`, `{"agent_id":"a","max_cost_usd":"x"}`, `{"agent_id":"a","max_cost_usd":"1e99"}`, `{"max_depth":"1"}`, `{"max_depth":{}}`},
		"/v1/reservations/r1/settle": {`{"usage":"x"}`, `{"usage":{"prompt_tokens":"x"}}`, `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":50}}}`, `{"usage":[1]}`, `{"meters":5}`, `{"meters":{"output_tokens":true}}`, `{"meters":{"output_tokens":1.5}}`, `{"meters":{"output_tokens":1e20}}`},
	} {
		for _, body := range bodies {
			status, out, _ := r.do("POST", path, w.keys["acme"], body)
			w.want(body, status, out, 400, "code", "invalid_argument")
			if detail := fmt.Sprint(out["detail"]); leak.MatchString(detail) || detail == "" {
				t.Errorf("%s: %q", body, detail)
			}
		}
	}
	status, out, header := r.do("POST", "/v1/reservations", w.keys["acme"], strings.Repeat(" ", maxBody+1))
	w.want("too large", status, out, 413, "code", "body_too_large")
	if header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", header)
	}
	status, out, _ = r.do("GET", "/v1/budget", "", nil)
	w.want("no key", status, out, 401, "detail", "unauthenticated: send Authorization: Bearer KEY")
}
