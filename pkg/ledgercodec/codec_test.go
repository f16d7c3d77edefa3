package ledgercodec

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func full(t testing.TB) ledger.Entry {
	t.Helper()
	usd, err := money.ParseUSD("-0.000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	rate, err := money.ParseDecimal("0.0000000000000000000000000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	markup, err := money.ParsePercent("12.5")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 1, 2, 3, 456789012, time.UTC)
	return ledger.Entry{
		ID: "e_1", Kind: ledger.Reversal, TenantID: "acme", EventTime: at, RecordedAt: at.Add(time.Second), Source: "app", EventID: "ev", ResponseID: "resp",
		ContentHash: sha256.Sum256([]byte("x")), Provider: "openai", Model: "gpt-4o", ServiceTier: "flex", Status: ledger.Partial, ErrorCode: "cut",
		Flags: []string{"estimated", "unpriced"}, Lines: []ledger.Line{{Meter: "input_tokens", Quantity: money.NewDecimal(-7), Rate: &rate, Raw: &usd, Billed: &usd}, {Meter: "x"}},
		InputTokens: -7, OutputTokens: 3, Raw: &usd, Billed: &usd, PriceVersion: "pv", Markup: markup,
		Lineage: ledger.Lineage{RootExecutionID: "r", ParentAgentID: "p", AgentID: "a", CostCenter: "c", Depth: 3, TraceID: "t", SpanID: "s"},
		Windows: window.Keys{Minute: 60, Hour: 0, Day: 20261130, Month: 202611}, PostedPeriod: 202611, ReservationID: "res", ReservedAt: at,
		OwnMode: ledger.Journal, Own: 5, External: -6, Held: 9, Epoch: 1 << 51, ReversesID: "e_0", At: ledger.Position{Topic: "usage.events.v1", Partition: 2, Offset: 99},
		RawUsage: []byte(`{"a":1}`), NormaliserVersion: "1", APIKeyID: "k1",
		Scopes: []window.Scope{{Kind: window.Agent, ID: "a"}, {Kind: window.CostCenter, ID: "c"}, {Kind: window.Branch, ID: "b1"}, {Kind: window.Branch, ID: "b2"}},
	}
}

func TestRoundTrip(t *testing.T) {
	e := full(t)
	a, err := marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	// Every field of the message is set: a field that the conversion forgets would be missing here.
	fields := toProto(e).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := fields.Get(i).Name(); name != "marker" && !toProto(e).ProtoReflect().Has(fields.Get(i)) { // a marker is no line of the books
			t.Errorf("field %s is not converted", fields.Get(i).Name())
		}
	}
	back, err := Unmarshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b, err := marshal(back)
	if err != nil || !bytes.Equal(a, b) {
		t.Fatalf("%v\n%+v\n%+v", err, e, back)
	}
	if back.Raw.String() != "-0.000000000000000001" || back.Lines[1].Raw != nil || back.Lines[1].Rate != nil || !back.EventTime.Equal(e.EventTime) {
		t.Errorf("%+v", back)
	}
	unpriced := full(t)
	unpriced.Raw, unpriced.Billed = nil, nil
	if got := toProto(unpriced); got.RawCostUsd != nil { // absent, never zero
		t.Errorf("raw cost %q", got.GetRawCostUsd())
	}
	r, err := Record(e)
	if err != nil || string(r.Key) != "acme" || r.Partition != bus.PartitionFor([]byte("acme"), r.Topic.Partitions()) || !r.Timestamp.Equal(e.RecordedAt) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStrict(t *testing.T) {
	one := "1"
	for name, spoil := range map[string]func(*weirv1.LedgerEntry){
		"no id":        func(m *weirv1.LedgerEntry) { m.Id = "" },
		"no tenant":    func(m *weirv1.LedgerEntry) { m.TenantId = "" },
		"no hash":      func(m *weirv1.LedgerEntry) { m.ContentHash = nil },
		"kind":         func(m *weirv1.LedgerEntry) { m.Kind = 99 },
		"amount":       func(m *weirv1.LedgerEntry) { bad := "1.0000000000000000001"; m.RawCostUsd = &bad },
		"half priced":  func(m *weirv1.LedgerEntry) { m.RawCostUsd, m.BilledCostUsd = &one, nil },
		"line":         func(m *weirv1.LedgerEntry) { m.Lines[0].Quantity = "x" },
		"markup":       func(m *weirv1.LedgerEntry) { m.MarkupPercent = "" },
		"scope kind":   func(m *weirv1.LedgerEntry) { m.Scopes[0].Kind = weirv1.ScopeKind_SCOPE_KIND_TENANT },
		"scope twice":  func(m *weirv1.LedgerEntry) { m.Scopes[1].Kind = weirv1.ScopeKind_SCOPE_KIND_AGENT },
		"branch twice": func(m *weirv1.LedgerEntry) { m.Scopes[3].Id = "b1" },
		"no branch id": func(m *weirv1.LedgerEntry) { m.Scopes[3].Id = "" },
		"no scope id":  func(m *weirv1.LedgerEntry) { m.Scopes[0].Id = "" },
	} {
		m := toProto(full(t))
		spoil(m)
		if _, err := fromProto(m); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	b, err := marshal(full(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{0xff, 0x01})
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := Unmarshal(value)
		if err != nil {
			return
		}
		again, err := fromProto(toProto(e))
		if err != nil || !proto.Equal(toProto(e), toProto(again)) {
			t.Fatalf("%v: %+v / %+v", err, e, again)
		}
	})
}
