package costattributor

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

func TestBooks(t *testing.T) {
	w := newWorld(t, true)
	entries, reason := w.send(w.record(usageevent.Encode(call("e1")), "acme"))
	if len(entries) != 1 || reason != "" {
		t.Fatalf("%d entries, %q", len(entries), reason)
	}
	e := entries[0]
	if e.Raw.String() != "0.0035" || e.Billed.String() != "0.0042" || e.External != 3_500_000 || e.IsOwn() || e.Lineage.CostCenter != "unassigned" ||
		e.Windows.Day != 20261130 || e.InputTokens != 1000 || len(e.Lines) != 2 || !e.RecordedAt.Equal(now) || !e.EventTime.Equal(now.Add(-time.Minute)) {
		t.Errorf("%+v", e)
	}
	own, reason := w.send(w.signed(usageevent.OutcomeSettled, nil))
	if reason != "" || own[0].Own != 3_500_000 || own[0].External != 0 || own[0].OwnMode != ledger.Direct || own[0].Lineage.Depth != 2 || !own[0].EventTime.Equal(now.Add(-2*time.Minute)) {
		t.Errorf("%q %+v", reason, own)
	}
}

func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*usageevent.Event)
		reason     string
		raw, flags string
	}{
		"unknown model":       {func(e *usageevent.Event) { e.Data.Model = "gpt-99" }, "", "NULL", "unpriced"},
		"dated model":         {func(e *usageevent.Event) { e.Data.Model = "gpt-4o-2024-08-06" }, "", "0.0035", "model_alias"},
		"failed, no usage":    {func(e *usageevent.Event) { e.Data.Usage, e.Data.Status = nil, "FAILED" }, "", "0", "usage_missing"},
		"failed, with output": {func(e *usageevent.Event) { e.Data.Status = "FAILED" }, "", "0.0025", ""}, // no output cost
		"failed, output only, by meters": {func(e *usageevent.Event) {
			e.Data.Status, e.Data.Usage, e.Data.Meters = "FAILED", nil, map[string]money.Decimal{"output_tokens": money.NewDecimal(7)}
		}, "", "0", ""},
		"failed, output of unknown price": {func(e *usageevent.Event) {
			e.Data.Status, e.Data.Usage, e.Data.Meters = "FAILED", nil, map[string]money.Decimal{"output_video_tokens": money.NewDecimal(7)}
		}, "", "0", ""},
		"no meters":   {func(e *usageevent.Event) { e.Data.Usage, e.Data.Meters = nil, map[string]money.Decimal{} }, "no_usage", "", ""},
		"empty usage": {func(e *usageevent.Event) { e.Data.Usage = []byte("{}") }, "no_usage", "", ""},
		"misspelt, charged by what is known": {func(e *usageevent.Event) {
			e.Data.Usage = []byte(`{"promt_tokens":1000,"completion_tokens":100}`)
		}, "", "0.001", "unknown_usage"},
		"contradictory": {func(e *usageevent.Event) {
			e.Data.Usage = []byte(`{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":7}`)
		}, "", "0.0035", "total_mismatch"},
		"a cache hit": {func(e *usageevent.Event) {
			e.Data.Usage, e.Data.Meters = nil, map[string]money.Decimal{"input_tokens": {}}
		}, "", "0", ""},
		"partial, no usage": {func(e *usageevent.Event) { e.Data.Usage, e.Data.Status = nil, "PARTIAL" }, "", "NULL", "unpriced usage_missing"},
		"no usage":          {func(e *usageevent.Event) { e.Data.Usage = nil }, "no_usage", "", ""},
		"unknown api":       {func(e *usageevent.Event) { e.Data.API = "telepathy" }, "unknown_api", "", ""},
		"unknown tenant":    {func(e *usageevent.Event) { e.Subject = "nobody" }, "unknown_tenant", "", ""},
		"cached above prompt": {func(e *usageevent.Event) {
			e.Data.Usage = []byte(`{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5}}`)
		}, "negative_meter", "", ""},
		"more than $9 million": {func(e *usageevent.Event) {
			e.Data.Usage = []byte(`{"prompt_tokens":9000000000000,"completion_tokens":1}`)
		}, "cost_out_of_range", "", ""},
		"no provider": {func(e *usageevent.Event) { e.Data.Provider = "" }, "no_provider", "", ""},
		"no provider, meters": {func(e *usageevent.Event) {
			e.Data.Provider, e.Data.Usage, e.Data.Meters = "null", nil, map[string]money.Decimal{"input_tokens": money.NewDecimal(7)}
		}, "no_provider", "", ""},
		"no model":             {func(e *usageevent.Event) { e.Data.Model = "" }, "no_model", "", ""},
		"a blank model":        {func(e *usageevent.Event) { e.Data.Model = "  " }, "no_model", "", ""},
		"a model called None":  {func(e *usageevent.Event) { e.Data.Model = "None" }, "no_model", "", ""},
		"failed, no model":     {func(e *usageevent.Event) { e.Data.Usage, e.Data.Status, e.Data.Model = nil, "FAILED", "" }, "no_model", "", ""},
		"a cache, no model":    {func(e *usageevent.Event) { e.Data.Usage, e.Data.CacheHit, e.Data.Model = nil, "exact", "" }, "no_model", "", ""},
		"a cache, no provider": {func(e *usageevent.Event) { e.Data.Usage, e.Data.CacheHit, e.Data.Provider = nil, "exact", "" }, "no_provider", "", ""},
		"the response names its model": {func(e *usageevent.Event) {
			e.Data.Usage, e.Data.Model = []byte(`{"model":"gpt-4o","usage":{"prompt_tokens":1000,"completion_tokens":100}}`), ""
		}, "", "0.0035", ""},
		"another case": {func(e *usageevent.Event) { e.Data.Provider, e.Data.Model = " OpenAI", "gpt-4o " }, "", "0.0035", ""},
		"long ago":     {func(e *usageevent.Event) { e.Time = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }, "", "0.0035", "time_behind"},
		"a day ago":    {func(e *usageevent.Event) { e.Time = now.Add(-behind) }, "", "0.0035", ""},
		"long ago, unpriced": {func(e *usageevent.Event) {
			e.Time, e.Data.Usage, e.Data.Status = now.Add(-behind-1), nil, "PARTIAL"
		}, "", "NULL", "time_behind unpriced usage_missing"},
		"a mismatch, far ahead": {func(e *usageevent.Event) {
			e.Time, e.Data.Model = now.AddDate(1, 0, 0), "gpt-99"
			e.Data.Usage = []byte(`{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":7,"whatever_tokens":1}`)
		}, "", "NULL", "time_ahead total_mismatch unknown_usage unpriced"},
		"far ahead":        {func(e *usageevent.Event) { e.Time = now.AddDate(5, 0, 0) }, "", "0.0035", "time_ahead"},
		"as far as may be": {func(e *usageevent.Event) { e.Time = now.Add(skew) }, "", "0.0035", ""},
		"a cache, far ahead": {func(e *usageevent.Event) {
			e.Data.Usage, e.Data.CacheHit, e.Time = nil, "exact", now.AddDate(5, 0, 0)
		}, "", "0", "cache_hit time_ahead"},
	} {
		w := newWorld(t, true)
		ev := call("e1")
		c.change(&ev)
		entries, reason := w.send(w.record(usageevent.Encode(ev), ev.Subject))
		if reason != c.reason || (reason == "") != (len(entries) == 1) {
			t.Errorf("%s: %d entries, reason %q", name, len(entries), reason)
			continue
		}
		if reason != "" {
			continue
		}
		raw := "NULL"
		if entries[0].Priced() {
			raw = entries[0].Raw.String()
		}
		if raw != c.raw || strings.Join(entries[0].Flags, " ") != c.flags || entries[0].EventTime.After(now.Add(skew)) ||
			entries[0].Provider != "openai" || strings.TrimSpace(entries[0].Model) != entries[0].Model {
			t.Errorf("%s: %s %v %s", name, raw, entries[0].Flags, entries[0].EventTime)
		}
	}
}

// TestWhoPays: the tenant comes from a signature or a token, never from the event alone (I8).
func TestWhoPays(t *testing.T) {
	w := newWorld(t, false)
	token := must[string](t)(w.key.SignExecutionToken(identity.Execution{Tenant: "acme", Root: "root", Agent: "lead", ParentAgent: "boss", CostCenter: "ops", Depth: 3,
		ExpiresAt: now.Add(-time.Second)}, now.Add(-time.Hour)))
	send := func(id string, change func(*usageevent.Event), headers ...string) ([]ledger.Entry, string) {
		ev := call(id)
		change(&ev)
		return w.send(w.record(usageevent.Encode(ev), "acme", headers...))
	}
	for name, c := range map[string]struct {
		change func(*usageevent.Event)
		want   string
		header []string
	}{
		"nothing":          {func(*usageevent.Event) {}, reasonNoIdentity, nil},
		"forged signature": {func(*usageevent.Event) {}, reasonNoIdentity, []string{identity.SignatureHeader, "v1=00"}},
		"admission's name": {func(e *usageevent.Event) { e.Source, e.Data.ExecutionToken = usageevent.SourceAdmission, token }, reasonNoIdentity, nil},
		"unsigned trip":    {func(e *usageevent.Event) { e.Type, e.Data.ExecutionToken = usageevent.TypeTermination, token }, reasonNoIdentity, nil},
		"not a token":      {func(e *usageevent.Event) { e.Data.ExecutionToken = "a.b.c" }, reasonNoIdentity, nil},
		"expired token":    {func(e *usageevent.Event) { e.Data.ExecutionToken, e.Time = token, now }, reasonNoIdentity, nil},
		"another subject":  {func(e *usageevent.Event) { e.Subject, e.Data.ExecutionToken = "other", token }, reasonTenantMismatch, nil},
		"another trace": {func(e *usageevent.Event) {
			e.Data.ExecutionToken, e.Data.Traceparent, e.Data.Tracestate = token, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tenant_id=other"
		}, reasonTenantMismatch, nil},
	} {
		if entries, reason := send(name, c.change, c.header...); reason != c.want || len(entries) != 0 {
			t.Errorf("%s: %d entries, %q", name, len(entries), reason)
		}
	}
	// Judged at the event's time, the token was valid; what it says overrules the event.
	entries, reason := send("e1", func(e *usageevent.Event) { e.Data.ExecutionToken, e.Subject = token, "" })
	if reason != "" || entries[0].TenantID != "acme" || entries[0].Lineage != (ledger.Lineage{RootExecutionID: "root", ParentAgentID: "boss", AgentID: "lead", CostCenter: "ops", Depth: 3}) {
		t.Errorf("%q %+v", reason, entries)
	}
	trusted := newWorld(t, true)
	ev := call("e1")
	ev.Subject = ""
	if _, reason := trusted.send(trusted.record(usageevent.Encode(ev), "acme")); reason != reasonNoIdentity { // field report 116
		t.Errorf("no tenant at all: %q", reason)
	}
	// A reservation block is believed only when signed.
	unsigned := trusted.signed(usageevent.OutcomeSettled, func(e *usageevent.Event) { e.Source = "app" })
	unsigned.Headers = nil
	if entries, reason := trusted.send(unsigned); reason != "" || entries[0].IsOwn() || entries[0].ReservationID != "r1" {
		t.Errorf("%q %+v", reason, entries)
	}
}

func TestDeadLetterKeepsTheBytes(t *testing.T) {
	w := newWorld(t, true)
	value := []byte("not an event \x00\xff")
	r := w.record(value, "acme", "trace", "t1", headerReason, "old")
	if _, reason := w.send(r); reason != "malformed" {
		t.Fatalf("reason %q", reason)
	}
	d := w.dead[0]
	header := func(k string) string { b, _ := d.Header(k); return string(b) }
	if !bytes.Equal(d.Value, value) || string(d.Key) != "acme" || header("trace") != "t1" || header(headerTopic) != "usage.events.v1" || header(headerOffset) != "0" ||
		header(headerTimestamp) != "1796032800000" || header(headerDetail) == "" || len(d.Headers) != 7 {
		t.Errorf("%+v", d)
	}
}

// Usage that says something twice has no amount that everybody reads: it is poison, signed or not, and its bytes are kept.
func TestUsageSaysNothingTwice(t *testing.T) {
	w := newWorld(t, true)
	for _, twice := range []string{`"completion_tokens":100,"completion_tokens":1`, `"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":0,"cached_tokens":900}`,
		`"completion_tokens":100,"Completion_Tokens":1`} {
		ev := call("c1")
		value := bytes.Replace(usageevent.Encode(ev), []byte(`"completion_tokens":100`), []byte(twice), 1)
		if entries, reason := w.send(w.record(value, "acme")); reason != "malformed" || len(entries) != 0 {
			t.Errorf("%s: %q, %v", twice, reason, entries)
		}
		if d := w.dead[len(w.dead)-1]; !bytes.Equal(d.Value, value) {
			t.Errorf("%s: %s", twice, d.Value)
		}
	}
}

// A duplicate anywhere, any time later, changes nothing: same process, after a restart, in another partition.
func TestDuplicates(t *testing.T) {
	w := newWorld(t, true)
	value := usageevent.Encode(call("e1"))
	home := w.record(value, "acme")
	w.send(home)
	again := w.record(value, "acme")
	if entries, reason := w.send(again); len(entries) != 0 || reason != "" {
		t.Errorf("duplicate: %d, %q", len(entries), reason)
	}
	w.restart()
	w.send(w.record(value, "acme"))
	astray := w.record(value, "acme")
	astray.Partition = (home.Partition + 1) % int32(topics.UsageEvents.Partitions())
	w.send(astray)
	if len(w.moved) != 1 || w.moved[0].Partition != home.Partition || !bytes.Equal(w.moved[0].Value, value) || !w.moved[0].Timestamp.Equal(now) {
		t.Fatalf("moved %+v", w.moved)
	}
	moved := w.moved[0]
	moved.Offset = w.offset
	w.offset++
	w.send(moved)
	moved.Partition = astray.Partition
	if _, reason := w.send(moved); reason != reasonMisrouted {
		t.Errorf("moved twice: %q", reason)
	}
	other := call("e1")
	other.Data.Model = "gpt-99"
	if _, reason := w.send(w.record(usageevent.Encode(other), "acme")); reason != "conflict" {
		t.Errorf("other content: %q", reason)
	}
	if len(w.journal) != 1 {
		t.Errorf("%d entries", len(w.journal))
	}
}

// The write fails after its first record; whether the process lives on or dies, the net is the same.
func TestCrashBetweenRecords(t *testing.T) {
	for _, dies := range []bool{false, true} {
		w := newWorld(t, true)
		k := call("k")
		k.Data.ReservationID = "r1"
		w.send(w.record(usageevent.Encode(k), "acme"))
		settle := w.signed(usageevent.OutcomeSettled, nil)
		claim := bus.NewClaim(topics.UsageEvents, settle.Partition, 1, nil)
		w.fail = errors.New("broker away")
		if err := w.a.handle(t.Context(), claim, []bus.Record{settle}); err == nil {
			t.Fatal("the write failed, the handler did not")
		}
		if dies {
			w.restart()
		}
		poison := w.record([]byte("x"), "acme")
		poison.Partition = settle.Partition
		if err := w.a.handle(t.Context(), claim, []bus.Record{settle, poison}); err != nil {
			t.Fatal(err)
		}
		raw, nanos := w.total()
		if raw.String() != "0.0035" || nanos != 3_500_000 || len(w.dead) != 1 {
			t.Errorf("dies %v: raw %s, nanos %d, %d dead letters", dies, raw, nanos, len(w.dead))
		}
	}
}

// The life of a hold that nobody settled: UNSETTLED, and a late settle that corrects it, once.
func TestLateSettle(t *testing.T) {
	w := newWorld(t, false)
	u, reason := w.send(w.signed(usageevent.OutcomeUnsettled, nil))
	if reason != "" || len(u) != 1 || u[0].Kind != ledger.Unsettled || u[0].Own != 10_000_000 || len(u[0].Lines) != 2 || u[0].OutputTokens != 500 {
		t.Fatalf("%q %+v", reason, u)
	}
	w.restart()
	late, reason := w.send(w.signed(usageevent.OutcomeLate, nil))
	if reason != "" || len(late) != 2 || late[0].Kind != ledger.Reversal || late[1].Kind != ledger.Usage {
		t.Fatalf("%q %+v", reason, late)
	}
	if raw, nanos := w.total(); raw.String() != "0.0035" || nanos != 3_500_000 {
		t.Errorf("raw %s, nanos %d", raw, nanos)
	}
	_, reason = w.send(w.signed(usageevent.OutcomeLate, func(e *usageevent.Event) { e.ID = "late:again" }))
	if reason != "already_settled" {
		t.Errorf("second late settle: %q", reason)
	}
}

func TestTermination(t *testing.T) {
	w := newWorld(t, false)
	ev := usageevent.Event{ID: "termination:x", Source: usageevent.SourceBreaker, Type: usageevent.TypeTermination, Subject: "acme", Time: now,
		Data: usageevent.Data{RootExecutionID: "x", Status: "FAILED", ErrorCode: "cost"}}
	value := usageevent.Encode(ev)
	for i := range 2 {
		entries, reason := w.send(w.record(value, "acme", identity.SignatureHeader, identity.Sign(secret(t), value)))
		if reason != "" || len(entries) != 1-i || i == 0 && (entries[0].Kind != ledger.Termination || !entries[0].Raw.IsZero() || entries[0].ErrorCode != "cost") {
			t.Errorf("%d: %q %+v", i, reason, entries)
		}
	}
}

// A failed call keeps the provider's own figures on its entry, whoever reports it, and admission's amount still adds up.
func TestFailedKeepsTheRawUsage(t *testing.T) {
	w := newWorld(t, true)
	own, reason := w.send(w.signed(usageevent.OutcomeSettled, func(e *usageevent.Event) { e.Data.Status, e.Data.Reservation.OwnNanos = "FAILED", 2_500_000 }))
	if reason != "" || own[0].Raw.String() != "0.0025" || own[0].Own != 2_500_000 || own[0].External != 0 || own[0].OutputTokens != 0 ||
		!bytes.Contains(own[0].RawUsage, []byte(`"completion_tokens":100`)) {
		t.Errorf("%q %+v", reason, own)
	}
}

// The text of a null in the provider's object is no second identity: strangers would be one call.
func TestResponseIDOfNothing(t *testing.T) {
	w := newWorld(t, true)
	for i, id := range []string{"None", "null", "r\\n1"} {
		for j, tokens := range []string{"10", "20"} {
			ev := call(fmt.Sprint(id, j))
			ev.ID = fmt.Sprintf("e%d-%d", i, j)
			ev.Data.Usage = []byte(`{"id":"` + id + `","usage":{"prompt_tokens":` + tokens + `,"completion_tokens":1}}`)
			if entries, reason := w.send(w.record(usageevent.Encode(ev), "acme")); reason != "" || len(entries) != 1 || entries[0].ResponseID != "" {
				t.Errorf("%s: %q %+v", id, reason, entries)
			}
		}
	}
}

// Whoever reads the log finds the event.
func TestDeadLetterIsLoggedWithItsID(t *testing.T) {
	w := newWorld(t, true)
	var log bytes.Buffer
	w.a.log = slog.New(slog.NewTextHandler(&log, nil))
	w.send(w.record([]byte(`{"specversion":"1.0","id":"lost-1","source":"s","type":"weir.usage.v1","data":{"error_code":"a\nb"}}`), "acme"))
	if !strings.Contains(log.String(), "event_id=lost-1") || !strings.Contains(log.String(), "reason=malformed") {
		t.Error(log.String())
	}
}

// A termination stands on the bill under its root's own lineage; without one its cost centre is unassigned, as for all.
func TestTerminationLineage(t *testing.T) {
	for _, c := range []struct{ agent, center, want string }{{"lead", "sales", "sales"}, {"", "", "unassigned"}} {
		w := newWorld(t, false)
		value := usageevent.Encode(usageevent.Event{ID: "termination:x", Source: usageevent.SourceBreaker, Type: usageevent.TypeTermination, Subject: "acme", Time: now,
			Data: usageevent.Data{RootExecutionID: "x", AgentID: c.agent, CostCenter: c.center, Status: "FAILED", ErrorCode: "cost"}})
		entries, reason := w.send(w.record(value, "acme", identity.SignatureHeader, identity.Sign(secret(t), value)))
		if reason != "" || entries[0].Lineage.AgentID != c.agent || entries[0].Lineage.CostCenter != c.want || !entries[0].Raw.IsZero() || !entries[0].Billed.IsZero() {
			t.Errorf("%q %+v", reason, entries)
		}
	}
}

func TestBoundStopsThePartition(t *testing.T) {
	w := newWorld(t, true)
	w.a.maxIDs = 1
	w.send(w.record(usageevent.Encode(call("e1")), "acme"))
	w.send(w.record(usageevent.Encode(call("e2")), "acme"))
	r := w.record(usageevent.Encode(call("e3")), "acme")
	if err := w.a.handle(t.Context(), bus.NewClaim(topics.UsageEvents, r.Partition, 1, nil), []bus.Record{r}); err == nil || !strings.Contains(err.Error(), "-max-ids") {
		t.Errorf("at the bound: %v", err)
	}
}
