package budgetaggregator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

var start = time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC)

func usd(t testing.TB, s string) *money.USD {
	t.Helper()
	a, err := money.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// entry is a priced call of a tenant at a time, in UTC windows.
func entry(t testing.TB, id, tenant, root string, at time.Time, raw string) ledger.Entry {
	t.Helper()
	own, err := money.CeilNano(*usd(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Entry{
		ID: "e_" + id, Kind: ledger.Usage, TenantID: tenant, EventTime: at, RecordedAt: start.Add(time.Minute), Source: "app", EventID: id,
		ContentHash: sha256.Sum256([]byte(id)), Provider: "openai", Model: "gpt-4o", InputTokens: 10, OutputTokens: 3, Raw: usd(t, raw), Billed: usd(t, raw),
		Lineage: ledger.Lineage{RootExecutionID: root, AgentID: "a", CostCenter: "c", Depth: 1}, Windows: window.KeysAt(at, time.UTC), OwnMode: ledger.Direct, Own: own,
	}
}

// someEntries are calls, unpriced calls, estimates and reversals of several tenants over two days, in no order of time.
func someEntries(t testing.TB, rng *rand.Rand, n int) []ledger.Entry {
	var all []ledger.Entry
	for i := range n {
		at := start.Add(time.Duration(rng.IntN(48*3600)-24*3600) * time.Second / 8)
		root := ""
		if rng.IntN(3) > 0 {
			root = fmt.Sprintf("run-%d", rng.IntN(4))
		}
		e := entry(t, fmt.Sprint(i), fmt.Sprintf("tenant-%d", rng.IntN(5)), root, at, fmt.Sprintf("0.%018d", rng.Int64N(1e18)))
		e.Lineage.Depth = int32(rng.IntN(5))
		if rng.IntN(2) > 0 { // a value may be the name of another kind, or of a window
			e.Scopes = []window.Scope{{Kind: window.Agent, ID: []string{"a", "day"}[rng.IntN(2)]}, {Kind: window.CostCenter, ID: "a"}, {Kind: window.APIKey, ID: "k"}}[rng.IntN(3):]
		}
		for i := range rng.IntN(3) { // a branch, or one within another
			e.Scopes = append(e.Scopes, window.Scope{Kind: window.Branch, ID: []string{"b1", "a"}[i]})
		}
		switch rng.IntN(6) {
		case 0:
			e.OwnMode, e.External, e.Own = "", e.Own, 0
		case 1:
			e.Raw, e.Billed, e.Flags = nil, nil, []string{ledger.FlagUnpriced}
		case 2:
			e.Kind, e.Flags = ledger.Unsettled, []string{ledger.FlagEstimated}
		case 3:
			e.Kind, e.OwnMode, e.External, e.Own = ledger.Reversal, "", -e.Own, 0
			e.InputTokens, e.OutputTokens = -e.InputTokens, -e.OutputTokens
			raw, billed := e.Raw.Neg(), e.Billed.Neg()
			e.Raw, e.Billed, e.ReversesID = &raw, &billed, "e_x"
		}
		all = append(all, e)
	}
	return all
}

// sums is a plain recomputation of one total, with none of the code under test.
type sums struct {
	own, external, in, out, entries, unpriced, estimated int64
	raw, billed                                          money.USD
	depth                                                int32
}

func (s sums) String() string {
	return fmt.Sprintf("own %d external %d tokens %d %d entries %d unpriced %d estimated %d raw %s billed %s depth %d",
		s.own, s.external, s.in, s.out, s.entries, s.unpriced, s.estimated, s.raw, s.billed, s.depth)
}

// recompute adds up entries, each id once.
func recompute(entries []ledger.Entry) map[string]string {
	seen, all := map[string]bool{}, map[string]sums{}
	for _, e := range entries {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		keys := []string{
			fmt.Sprintf("%s\x00minute\x00%d", e.TenantID, e.EventTime.Unix()/60*60), fmt.Sprintf("%s\x00hour\x00%d", e.TenantID, e.EventTime.Unix()/3600*3600),
			e.TenantID + "\x00day\x00" + e.EventTime.Format("20060102"), e.TenantID + "\x00month\x00" + e.EventTime.Format("200601"),
		}
		if e.Lineage.RootExecutionID != "" {
			keys = append(keys, e.TenantID+"\x00execution\x00"+e.Lineage.RootExecutionID)
		}
		for _, c := range e.Scopes {
			if c.Kind == window.Branch {
				if e.RecordedAt.Sub(e.EventTime) <= 9*24*time.Hour {
					keys = append(keys, e.TenantID+"\x00execution_branch\x00"+c.ID)
				}
				continue
			}
			scope := fmt.Sprintf("%s\x00%s\x00%s\x00", e.TenantID, c.Kind, c.ID)
			keys = append(keys, scope+"minute\x00"+strings.Split(keys[0], "\x00")[2], scope+"day\x00"+e.EventTime.Format("20060102"), scope+"month\x00"+e.EventTime.Format("200601"))
		}
		for _, k := range keys {
			s, sign := all[k], int64(1)
			if e.Kind == ledger.Reversal {
				sign = -1
			}
			s.own, s.external, s.in, s.out, s.entries = s.own+int64(e.Own), s.external+int64(e.External), s.in+e.InputTokens, s.out+e.OutputTokens, s.entries+1
			if e.Raw == nil {
				s.unpriced += sign
			} else {
				s.raw, s.billed = s.raw.Add(*e.Raw), s.billed.Add(*e.Billed)
			}
			if e.Kind == ledger.Unsettled {
				s.estimated += sign
			}
			if strings.HasPrefix(k, e.TenantID+"\x00execution") {
				s.depth = max(s.depth, e.Lineage.Depth)
			}
			all[k] = s
		}
	}
	out := map[string]string{}
	for k, s := range all {
		out[k] = s.String()
	}
	return out
}

// summed is a published total in the words of recompute.
func summed(t testing.TB, m *weirv1.WindowTotal) string {
	return sums{m.GetOwnNanos(), m.GetExternalNanos(), m.GetInputTokens(), m.GetOutputTokens(), m.GetEntries(), m.GetUnpricedEntries(), m.GetEstimatedEntries(),
		*usd(t, m.GetRawCostUsd()), *usd(t, m.GetBilledCostUsd()), m.GetMaxDepth()}.String()
}

func different(got, want map[string]string) string {
	for k, w := range want {
		if got[k] != w {
			return fmt.Sprintf("%q is\n%s, want\n%s", k, got[k], w)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d totals, want %d", len(got), len(want))
	}
	return ""
}

// memory is a Kafka of two topics for tests that crash a lot.
type memory struct {
	mu      sync.Mutex
	records map[string]map[int32][]bus.Record
	next    map[string]map[int32]int64
}

func newMemory() *memory {
	return &memory{records: map[string]map[int32][]bus.Record{}, next: map[string]map[int32]int64{}}
}

func (m *memory) Produce(_ context.Context, records ...bus.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		name := r.Topic.Name()
		if m.records[name] == nil {
			m.records[name], m.next[name] = map[int32][]bus.Record{}, map[int32]int64{}
		}
		r.Offset = m.next[name][r.Partition]
		m.next[name][r.Partition]++
		m.records[name][r.Partition] = append(m.records[name][r.Partition], r)
	}
	return nil
}

func (m *memory) ReadPartition(_ context.Context, topic bus.Topic, partition int32, from, to int64, fn func(bus.Record) error) error {
	m.mu.Lock()
	records := m.records[topic.Name()][partition]
	m.mu.Unlock()
	for _, r := range records {
		if r.Offset < from || to >= 0 && r.Offset >= to {
			continue
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// compact keeps the newest record of each key, as Kafka may.
func (m *memory) compact(partition int32) {
	name := topics.BudgetWindows.Name()
	if m.records[name] == nil {
		return
	}
	last := map[string]int64{}
	for _, r := range m.records[name][partition] {
		last[string(r.Key)] = r.Offset
	}
	var kept []bus.Record
	for _, r := range m.records[name][partition] {
		if last[string(r.Key)] == r.Offset {
			kept = append(kept, r)
		}
	}
	m.records[name][partition] = kept
}

// totals are the published totals, the highest version of each key; highest versions that differ in content fail.
func (m *memory) totals(t testing.TB) map[string]string {
	out, version := map[string]string{}, map[string]int64{}
	for p, records := range m.records[topics.BudgetWindows.Name()] {
		for _, r := range records {
			if r.Value == nil {
				continue
			}
			k, _, total, err := decode(r.Value)
			if err == nil && total.GetBaseEpoch() != 0 {
				continue
			}
			if err != nil || k.text() != string(r.Key) || p != bus.PartitionFor([]byte(k.tenant), topics.BudgetWindows.Partitions()) {
				t.Fatalf("partition %d offset %d key %q: %v", p, r.Offset, r.Key, err)
			}
			text := summed(t, total)
			if total.GetVersion() == version[k.text()] && out[k.text()] != text {
				t.Fatalf("%q has two contents in version %d:\n%s\n%s", k.text(), total.GetVersion(), out[k.text()], text)
			}
			if total.GetVersion() > version[k.text()] {
				out[k.text()], version[k.text()] = text, total.GetVersion()
			}
		}
	}
	return out
}

// put writes entries to the journal.
func put(t testing.TB, produce func(context.Context, ...bus.Record) error, entries ...ledger.Entry) {
	t.Helper()
	records := make([]bus.Record, len(entries))
	for i, e := range entries {
		r, err := ledgercodec.Record(e)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = r
	}
	if err := produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

var errCrash = errors.New("crash")

// process is an aggregator whose publications may be cut off.
type process struct {
	*aggregator
	m *memory
	// cut is after how many more records a publication crashes; below 0 never.
	cut int
}

func newProcess(t testing.TB, m *memory) *process {
	t.Helper()
	metrics, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{m: m, cut: -1}
	p.aggregator = &aggregator{log: slog.New(slog.DiscardHandler), metrics: metrics, reader: m, produce: p.publish,
		room: &room{bound: 1 << 20}, every: time.Hour, books: map[int32]*owned{},
		now: func() time.Time { return start.Add(365 * day) }}
	return p
}

func (p *process) publish(ctx context.Context, records ...bus.Record) error {
	if p.cut < 0 || p.cut > len(records) {
		if p.cut > 0 {
			p.cut -= len(records)
		}
		return p.m.Produce(ctx, records...)
	}
	_ = p.m.Produce(ctx, records[:p.cut]...)
	p.cut = 0
	return errCrash
}

func claimOf(partition, generation int32) bus.Claim {
	return bus.NewClaim(topics.LedgerEntries, partition, generation, nil)
}

func (p *process) assign(t testing.TB, claim bus.Claim, committed int64) error {
	t.Helper()
	at, err := p.assigned(context.Background(), claim, bus.Committed{Offset: committed})
	if err == nil && at != bus.AtCommitted {
		t.Fatalf("starts at %d", at)
	}
	t.Cleanup(func() { p.release(claim) })
	return err
}
