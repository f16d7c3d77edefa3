package breaker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/usageevent"
)

var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// limits are those of every tenant in these tests: five dollars, ten calls, depth three.
var limits = tenant.Execution{MaxCost: 5_000_000_000, MaxCalls: 10, MaxDepth: 3}

func secret(t testing.TB) identity.Secret {
	t.Helper()
	s, err := identity.NewSecret([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// entry is the n-th call, recorded n seconds after the start.
func entry(n int, tenant, root string, nanos money.Nano) ledger.Entry {
	at := start.Add(time.Duration(n) * time.Second)
	raw := nanos.USD()
	return ledger.Entry{
		ID: fmt.Sprintf("e_%d", n), Kind: ledger.Usage, TenantID: tenant, EventTime: at.Add(-time.Hour), RecordedAt: at, Source: "app", EventID: fmt.Sprint(n),
		ContentHash: sha256.Sum256(nil), Raw: &raw, Billed: &raw, External: nanos, Windows: window.KeysAt(at, time.UTC),
		Lineage: ledger.Lineage{RootExecutionID: root, AgentID: "a", ParentAgentID: "p", Depth: 1},
	}
}

func decision(t testing.TB, tenant, root string, trip bool) bus.Record {
	t.Helper()
	value, err := proto.Marshal(&weirv1.Decision{TenantId: tenant, RootExecutionId: root, Code: "execution_budget_exceeded", Limit: "max_cost_usd",
		DecidedAt: timestamppb.New(start), Trip: trip})
	if err != nil {
		t.Fatal(err)
	}
	return bus.NewRecord(topics.AdmissionDecisions, tenant, []byte(tenant), value)
}

// output is what was published: per root, the contents of its termination events and of its revocations.
type output struct {
	events, revocations map[root][]string
}

func newOutput() output { return output{map[root][]string{}, map[root][]string{}} }

func (o output) add(t testing.TB, r bus.Record) {
	t.Helper()
	home := func(tenant string) {
		if want := bus.PartitionFor([]byte(tenant), r.Topic.Partitions()); r.Partition != want {
			t.Errorf("%s of %s in partition %d, want %d", r.Topic.Name(), tenant, r.Partition, want)
		}
	}
	switch r.Topic.Name() {
	case topics.UsageEvents.Name():
		signature, _ := r.Header(identity.SignatureHeader)
		if !identity.Verify(secret(t), r.Value, string(signature)) {
			t.Errorf("signature %q", signature)
		}
		e := decodeEvent(t, r)
		id := root{e.Subject, e.Data.RootExecutionID}
		if e.Source != usageevent.SourceBreaker || e.Type != usageevent.TypeTermination || e.ID != "termination:"+id.execution || e.Data.Status != "FAILED" ||
			string(r.Key) != e.Subject {
			t.Errorf("%+v", e)
		}
		home(e.Subject)
		o.events[id] = append(o.events[id], e.Data.ErrorCode+" "+e.Time.Format(time.RFC3339))
	case topics.ExecutionsRevoked.Name():
		m := new(weirv1.Revocation)
		if err := proto.Unmarshal(r.Value, m); err != nil {
			t.Fatal(err)
		}
		id := root{m.GetTenantId(), m.GetRootExecutionId()}
		if string(r.Key) != id.tenant+"\x00"+id.execution {
			t.Errorf("key %q", r.Key)
		}
		home(id.tenant)
		o.revocations[id] = append(o.revocations[id], fmt.Sprintf("%s %s of %s at %s", m.GetReason(), m.GetObserved(), m.GetThreshold(), m.GetRevokedAt().AsTime().Format(time.RFC3339)))
	}
}

func decodeEvent(t testing.TB, r bus.Record) usageevent.Event {
	t.Helper()
	e, err := usageevent.Decode(r.Value, r.Header)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var errCrash = errors.New("crash")

// process is the handlers of one breaker process, over a Kafka in memory. Publications may be cut off.
type process struct {
	journal   *journalReader
	decisions *decisionReader
	cut       int // after how many more records a publication crashes; below 0 never
}

// memory is a journal and what was published.
type memory struct {
	mu      sync.Mutex
	journal map[int32][]bus.Record
	out     output
	revoked []bus.Record
}

func newMemory() *memory { return &memory{journal: map[int32][]bus.Record{}, out: newOutput()} }

func (m *memory) put(t testing.TB, entries ...ledger.Entry) {
	t.Helper()
	for _, e := range entries {
		r, err := ledgercodec.Record(e)
		if err != nil {
			t.Fatal(err)
		}
		r.Offset = int64(len(m.journal[r.Partition]))
		m.journal[r.Partition] = append(m.journal[r.Partition], r)
	}
}

func (m *memory) ReadPartition(_ context.Context, _ bus.Topic, partition int32, from, to int64, fn func(bus.Record) error) error {
	for _, r := range m.journal[partition] {
		if r.Offset >= from && (to < 0 || r.Offset < to) {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) since(_ context.Context, _ bus.Topic, t time.Time) (map[int32]int64, error) {
	out := map[int32]int64{}
	for p, records := range m.journal {
		out[p] = int64(len(records))
		for i := len(records) - 1; i >= 0; i-- {
			if !records[i].Timestamp.Before(t) {
				out[p] = int64(i)
			}
		}
	}
	return out, nil
}

// newProcess starts a process that has read the revocations.
func newProcess(t testing.TB, m *memory) *process {
	t.Helper()
	metrics, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cut: -1}
	log := slog.New(slog.DiscardHandler)
	v := &revoked{log: log, metrics: metrics, secret: secret(t), roots: map[string]struct{}{}, produce: func(_ context.Context, records ...bus.Record) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range records {
			if p.cut == 0 {
				return errCrash
			}
			p.cut--
			m.out.add(t, r)
			if r.Topic.Name() == topics.ExecutionsRevoked.Name() {
				m.revoked = append(m.revoked, r)
			}
		}
		return nil
	}}
	for _, r := range m.revoked {
		_ = v.apply(r)
	}
	loaded := func(context.Context) error { return nil }
	p.journal = &journalReader{log: log, metrics: metrics, reader: m, since: m.since, now: func() time.Time { return start.Add(1000 * time.Hour) }, loaded: loaded,
		limits: func(string, time.Time) tenant.Execution { return limits }, revoked: v, room: &room{bound: 1000}, maxAge: 24 * time.Hour, books: map[int32]*book{}}
	p.decisions = &decisionReader{log: log, metrics: metrics, loaded: loaded, revoked: v}
	return p
}

func claimOf(partition int32) bus.Claim { return bus.NewClaim(topics.LedgerEntries, partition, 1, nil) }
