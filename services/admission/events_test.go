//go:build integration

package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// ingested are the events in Kafka, as the attributor would verify them.
func (w *world) ingested() []usageevent.Event {
	w.t.Helper()
	var out []usageevent.Event
	for p := range int32(topics.UsageEvents.Partitions()) {
		w.must(w.conn.ReadPartition(w.t.Context(), topics.UsageEvents, p, -1, -1, func(r bus.Record) error {
			ev, err := usageevent.Decode(r.Value, r.Header)
			signature, _ := r.Header(identity.SignatureHeader)
			if err != nil || !identity.Verify(w.secret, r.Value, string(signature)) || string(r.Key) != ev.Subject || r.Partition != bus.PartitionFor(r.Key, topics.UsageEvents.Partitions()) {
				return fmt.Errorf("%v: key %s, signature %s, %s", err, r.Key, signature, r.Value)
			}
			out = append(out, ev)
			return nil
		}))
	}
	return out
}

// Goal: what was answered 204 is in Kafka, signed, for the credential's tenant; of everything else nothing is there, and
// nothing that only Weir may say gets a signature. Method: one row an attack.
func TestIngest(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	r := w.start()
	token := func(tenant string) string {
		t.Helper()
		text, err := w.tokenKey.SignExecutionToken(identity.Execution{Tenant: tenant, Root: "root", Agent: "a", ExpiresAt: time.Now().Add(-time.Minute)}, time.Now().Add(-time.Hour))
		w.must(err)
		return text
	}
	with := func(members string) string { return strings.Replace(anEvent, `"data":{`, members+`"data":{`, 1) }
	data := func(members string) string { return strings.Replace(anEvent, `"data":{`, `"data":{`+members, 1) }
	send := func(key, body string, headers ...string) (int, object) {
		t.Helper()
		status, out, _ := r.do("POST", "/v1/events", key, body, headers...)
		return status, out
	}
	past := time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"another subject":        {with(`"subject":"beta",`), 403, "forbidden_tenant"},
		"one of a batch":         {"[" + anEvent + "," + with(`"subject":"beta",`) + "]", 403, "forbidden_tenant"},
		"another trace":          {data(`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"tenant_id=beta",`), 403, "forbidden_tenant"},
		"another's token":        {strings.Replace(data(`"execution_token":"`+token("beta")+`",`), `"data"`, `"time":"`+past+`","data"`, 1), 403, "forbidden_tenant"},
		"a token that has ended": {data(`"execution_token":"` + token("acme") + `",`), 401, "unauthenticated"},
		"a forged token":         {data(`"execution_token":"a.b.c",`), 401, "unauthenticated"},
		"admission's source":     {strings.Replace(anEvent, "agents/7", usageevent.SourceAdmission, 1), 400, "invalid_argument"},
		"the breaker's source":   {strings.Replace(anEvent, "agents/7", usageevent.SourceBreaker, 1), 400, "invalid_argument"},
		"a termination":          {strings.Replace(anEvent, "weir.usage.v1", usageevent.TypeTermination, 1), 400, "invalid_argument"},
		"unsettled":              {strings.Replace(anEvent, "weir.usage.v1", usageevent.TypeUnsettled, 1), 400, "invalid_argument"},
		"less than nothing":      {"[" + anEvent + "," + strings.NewReplacer("e1", "e2", `"meters":{"input_tokens":1}`, `"usage":{"prompt_tokens":-1}`).Replace(anEvent) + "]", 400, "invalid_argument"},
		"not an event":           {"{}", 400, "invalid_argument"},
		"too large":              {anEvent + strings.Repeat(" ", maxEventsBody), 413, "body_too_large"},
	} {
		status, out := send(w.keys["acme"], c.body)
		w.want(name, status, out, c.status, "code", c.code)
	}
	status, out := send("", anEvent)
	w.want("nobody", status, out, 401, "code", "unauthenticated")
	status, out = send(w.keys["acme"], anEvent, tenantHeader, "beta")
	w.want("another tenant", status, out, 403, "code", "forbidden_tenant")
	if got := w.ingested(); len(got) != 0 {
		t.Fatalf("taken all the same: %+v", got)
	}

	status, out = send(w.keys["acme"], data(`"prompt":"secret words","reservation_id":"r1","reservation":{"reserved_at":"2026-01-01T00:00:00Z","outcome":"settled","own_mode":"direct","own_nanos":1},`))
	w.want("one", status, out, 204)
	status, out = send(w.keys["acme"], strings.Replace(data(`"reservation":{"x":1},"api_key_id":7,`), "e1", "e5", 1))
	w.want("what only Weir may say, malformed", status, out, 204)
	status, out, _ = r.do("POST", "/api/v1/events", w.keys["beta"], "["+strings.Replace(anEvent, "e1", "e2", 1)+","+strings.Replace(with(`"subject":"beta",`), "e1", "e3", 1)+"]", "Content-Type", "application/cloudevents-batch+json")
	w.want("a batch", status, out, 204)
	status, out = send(w.keys["acme"], strings.Replace(strings.Replace(data(`"execution_token":"`+token("acme")+`",`), `"data"`, `"time":"`+past+`","data"`, 1), "e1", "e4", 1))
	w.want("a token that was valid then", status, out, 204)
	got := map[string]usageevent.Event{}
	for _, ev := range w.ingested() {
		got[ev.ID] = ev
	}
	if len(got) != 5 || got["e5"].Data.Reservation != nil || got["e1"].Subject != "acme" || got["e2"].Subject != "beta" || got["e3"].Subject != "beta" || got["e4"].Subject != "acme" {
		t.Errorf("%+v", got)
	}
	if got["e1"].Data.Reservation != nil || got["e1"].Data.ReservationID != "r1" || strings.Contains(string(usageevent.Encode(got["e1"])), "secret words") {
		t.Errorf("%+v", got["e1"])
	}
}

// Goal: Kafka away is a 503 to be retried, in time; never a 204.
func TestIngestWithoutKafka(t *testing.T) {
	kafka, cluster := testkit.KafkaCluster(t)
	w := newWorldOn(t, kafka, one(contract()))
	r := w.start(func(c *Config) { c.Deadline = 300 * time.Millisecond })
	cluster.Close()
	w.within("the answer", 5*time.Second, func(int) time.Duration {
		begin := time.Now()
		status, out, header := r.do("POST", "/v1/events", w.keys["acme"], anEvent)
		if status != 503 || out["code"] != "budget_store_unavailable" || header.Get("Retry-After") == "" {
			t.Fatalf("%d %v", status, out)
		}
		return time.Since(begin)
	})
	if !r.svc.waiting.take("acme", maxTenantInFlight) {
		t.Error("the answered request still takes room")
	}
	status, out, header := r.do("POST", "/v1/events", w.keys["acme"], anEvent)
	if status != 429 || out["code"] != "rate_limited" || out["limit"] != "events_in_flight" || header.Get("Retry-After") == "" {
		t.Errorf("full: %d %v", status, out)
	}
}
