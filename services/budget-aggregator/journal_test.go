package budgetaggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Whatever the batches, crashes (before, in and after a publication), take-overs, compactions and repeated ids: the
// published totals are the plain sums.
func TestTotalsAreThePlainSums(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		entries := someEntries(t, rng, rapid.IntRange(1, 120).Draw(rt, "entries"))
		for range len(entries) / 8 { // a dead owner's late writes
			entries = append(entries, entries[rng.IntN(len(entries))])
		}
		m := newMemory()
		put(t, m.Produce, entries...)
		for partition, records := range m.records[topics.LedgerEntries.Name()] {
			run(t, rt, m, partition, records)
		}
		if d := different(m.totals(t), recompute(entries)); d != "" {
			rt.Fatal(d)
		}
	})
}

// run handles one partition's records with random cuts and crashes until all are committed.
func run(t *testing.T, rt *rapid.T, m *memory, partition int32, records []bus.Record) {
	committed, generation := int64(-1), int32(0)
	var p *process
	for committed < int64(len(records)) {
		if p == nil {
			generation++
			p = newProcess(t, m)
			if err := p.assign(t, claimOf(partition, generation), committed); err != nil {
				rt.Fatal(err)
			}
			if got := testutil.ToFloat64(p.metrics.refolds); got > 0 && !duplicateAt(records, committed) {
				rt.Fatalf("folded again without need at %d", committed)
			}
		}
		from := max(0, committed)
		to := min(int64(len(records)), from+rapid.Int64Range(1, 25).Draw(rt, "batch"))
		p.cut = rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 7, 30}).Draw(rt, "crash after")
		err := p.handle(context.Background(), claimOf(partition, generation), records[from:to])
		switch {
		case err != nil && rapid.Bool().Draw(rt, "retry"):
			continue // the loop repeats the batch in the same process
		case err != nil || rapid.IntRange(0, 4).Draw(rt, "crash before commit") == 0:
			p = nil
			if rapid.Bool().Draw(rt, "compact") {
				m.compact(partition)
			}
		default:
			committed = to
		}
	}
}

// duplicateAt: the output then says nothing about the last entry before the committed offset.
func duplicateAt(records []bus.Record, committed int64) bool {
	for committed > 0 && strings.HasPrefix(string(records[committed-1].Key), "epoch:") {
		committed--
	}
	if committed < 1 {
		return false
	}
	for _, r := range records[:committed-1] {
		if string(r.Value) == string(records[committed-1].Value) {
			return true
		}
	}
	return false
}

func TestLateEntryRestatesItsWindow(t *testing.T) {
	m := newMemory()
	put(t, m.Produce, entry(t, "1", "acme", "run", start, "0.5"), entry(t, "2", "acme", "run", start.Add(24*time.Hour), "0.25"),
		entry(t, "late", "acme", "run", start.Add(-time.Minute), "0.125")) // 23:49, after an entry of the day after
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	if err := p.assign(t, claimOf(partition, 1), -1); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.records[topics.LedgerEntries.Name()][partition] {
		if err := p.handle(t.Context(), claimOf(partition, 1), []bus.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	raw := map[string]string{}
	for _, r := range m.records[topics.BudgetWindows.Name()][partition] {
		_, _, total, err := decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		raw[string(r.Key)] = fmt.Sprintf("%s v%d", total.GetRawCostUsd(), total.GetVersion())
	}
	for k, want := range map[string]string{
		"acme\x00day\x0020261130": "0.625 v3", "acme\x00day\x0020261201": "0.25 v2", "acme\x00month\x00202611": "0.625 v3",
		"acme\x00month\x00202612": "0.25 v2", "acme\x00execution\x00run": "0.875 v3",
		fmt.Sprintf("acme\x00minute\x00%d", start.Unix()): "0.5 v1", fmt.Sprintf("acme\x00minute\x00%d", start.Unix()-60): "0.125 v3",
	} {
		if raw[k] != want {
			t.Errorf("%q: %s, want %s", k, raw[k], want)
		}
	}
}

// neighbour is another tenant of a partition.
func neighbour(partition int32) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("neighbour-", i); bus.PartitionFor([]byte(name), topics.LedgerEntries.Partitions()) == partition {
			return name
		}
	}
}

// zombie makes a partition with two owners: the second one has handled everything, the first one then writes its totals of
// the first entry once more.
func zombie(t *testing.T) (m *memory, now *process, partition int32, entries []ledger.Entry) {
	t.Helper()
	m, partition = newMemory(), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	for i := range 4 {
		entries = append(entries, entry(t, fmt.Sprint(i), "acme", "run", start, "0.1"))
	}
	entries = append(entries, entry(t, "4", neighbour(partition), "run", start, "0.1")) // its totals reach the committed offset
	put(t, m.Produce, entries...)
	records := m.records[topics.LedgerEntries.Name()][partition]
	dead := newProcess(t, m)
	if err := errors.Join(dead.assign(t, claimOf(partition, 1), -1), dead.handle(t.Context(), claimOf(partition, 1), records[:1])); err != nil {
		t.Fatal(err)
	}
	now = newProcess(t, m)
	if err := errors.Join(now.assign(t, claimOf(partition, 2), 1), now.handle(t.Context(), claimOf(partition, 2), records[1:])); err != nil {
		t.Fatal(err)
	}
	for k := range dead.book(partition).totals {
		dead.book(partition).dirty[k] = struct{}{}
	}
	if _, err := dead.book(partition).publish(t.Context(), m.Produce); err != nil {
		t.Fatal(err)
	}
	return m, now, partition, entries
}

func TestOwnerWritesAgainWhatADeadOwnerOverwrote(t *testing.T) {
	m, now, partition, entries := zombie(t)
	if err := now.repair(t.Context(), now.book(partition)); err != nil {
		t.Fatal(err)
	}
	m.compact(partition)
	if d := different(m.totals(t), recompute(entries)); d != "" {
		t.Error(d)
	}
	if got := testutil.ToFloat64(now.metrics.overwritten); got != 5 {
		t.Errorf("%v totals were overwritten", got)
	}
	before := m.next[topics.BudgetWindows.Name()][partition]
	if err := now.repair(t.Context(), now.book(partition)); err != nil || m.next[topics.BudgetWindows.Name()][partition] != before {
		t.Errorf("a second look wrote again: %v", err)
	}
	// What was repaired needs no second fold of the journal.
	next := newProcess(t, m)
	if err := next.assign(t, claimOf(partition, 3), int64(len(entries))); err != nil || testutil.ToFloat64(next.metrics.refolds) != 0 {
		t.Errorf("%v, %v refolds", err, testutil.ToFloat64(next.metrics.refolds))
	}
}

// A restore that meets both records, the newer one and the dead owner's behind it, puts the newer one last again.
func TestRestoreWritesAgainWhatADeadOwnerOverwrote(t *testing.T) {
	m, _, partition, entries := zombie(t)
	next := newProcess(t, m)
	if err := next.assign(t, claimOf(partition, 3), 5); err != nil {
		t.Fatal(err)
	}
	m.compact(partition)
	if d := different(m.totals(t), recompute(entries)); d != "" {
		t.Error(d)
	}
}

func TestRestoreFoldsAgainWhenCompactionTookTheNewerRecord(t *testing.T) {
	m, _, partition, entries := zombie(t)
	m.compact(partition) // only the dead owner's totals are left
	put(t, m.Produce, entry(t, "9", "acme", "run", start, "0.7"))
	entries = append(entries, entry(t, "9", "acme", "run", start, "0.7"))
	next := newProcess(t, m)
	if err := next.assign(t, claimOf(partition, 3), 5); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(next.metrics.refolds); got != 1 {
		t.Errorf("%v refolds", got)
	}
	if err := next.handle(t.Context(), claimOf(partition, 3), m.records[topics.LedgerEntries.Name()][partition][5:]); err != nil {
		t.Fatal(err)
	}
	if d := different(m.totals(t), recompute(entries)); d != "" {
		t.Error(d)
	}
}

func TestRestore(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(m *memory, partition int32)
		refolds float64
		failure string
	}{
		{"nothing happened", func(*memory, int32) {}, 0, ""},
		{"the output is gone", func(m *memory, p int32) { m.records[topics.BudgetWindows.Name()][p] = nil }, 1, ""},
		{"a record is no total", func(m *memory, p int32) {
			_ = m.Produce(context.Background(), bus.Record{Topic: topics.BudgetWindows, Partition: p, Key: []byte("x"), Value: []byte{0xff}})
		}, 1, ""},
		{"a tombstone", func(m *memory, p int32) {
			_ = m.Produce(context.Background(), bus.Record{Topic: topics.BudgetWindows, Partition: p, Key: []byte("x")})
		}, 0, ""},
		{"output and the journal's start are gone", func(m *memory, p int32) {
			m.records[topics.BudgetWindows.Name()][p] = nil
			m.records[topics.LedgerEntries.Name()][p] = m.records[topics.LedgerEntries.Name()][p][2:]
		}, 1, "the journal begins at 2"},
	} {
		m, partition := newMemory(), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
		entries := []ledger.Entry{entry(t, "1", "acme", "run", start, "0.1"), entry(t, "2", "acme", "", start, "0.2"), entry(t, "3", "acme", "run", start, "0.3")}
		put(t, m.Produce, entries...)
		first := newProcess(t, m)
		if err := errors.Join(first.assign(t, claimOf(partition, 7), -1),
			first.handle(t.Context(), claimOf(partition, 7), m.records[topics.LedgerEntries.Name()][partition])); err != nil {
			t.Fatal(err)
		}
		c.spoil(m, partition)
		// Generation 1 after 7: the broker has forgotten the group.
		second := newProcess(t, m)
		err := second.assign(t, claimOf(partition, 1), 3)
		if got := testutil.ToFloat64(second.metrics.refolds); got != c.refolds {
			t.Errorf("%s: %v refolds", c.name, got)
		}
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) || second.room.used.Load() != 0 {
				t.Errorf("%s: %v, %d totals kept", c.name, err, second.room.used.Load())
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := map[string]string{}
		for k, total := range second.book(partition).totals {
			value, err := encode(k, total, 0)
			if err != nil {
				t.Fatal(err)
			}
			w := new(weirv1.WindowTotal)
			if err := proto.Unmarshal(value, w); err != nil {
				t.Fatal(err)
			}
			got[k.text()] = summed(t, w)
		}
		if d := different(got, recompute(entries)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if g := second.book(partition).generation; c.refolds == 0 && g != 8 {
			t.Errorf("%s: generation %d does not rise", c.name, g)
		}
	}
}

func TestHandleStops(t *testing.T) {
	partition := bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	good := entry(t, "1", "acme", "run", start, "0.1")
	for _, c := range []struct {
		name, want string
		room       int64
		spoil      func(r *bus.Record)
	}{
		{"at the bound", "-max-windows (3) is reached", 3, func(*bus.Record) {}},
		{"no entry", "journal", 100, func(r *bus.Record) { r.Value = []byte("x") }},
		{"foreign partition", "belongs to partition", 100, func(r *bus.Record) { r.Partition = (partition + 1) % 4 }},
	} {
		m, claim := newMemory(), claimOf(partition, 1)
		put(t, m.Produce, good, entry(t, "2", "acme", "run", start.Add(time.Hour), "0.2"))
		records := append([]bus.Record(nil), m.records[topics.LedgerEntries.Name()][partition]...)
		c.spoil(&records[1])
		p := newProcess(t, m)
		p.room.bound = c.room
		if err := p.assign(t, claim, -1); err != nil {
			t.Fatal(err)
		}
		for range 2 { // and stops again: nothing is skipped
			if err := p.handle(t.Context(), claim, records); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if c.room == 3 { // once there is room, the same batch succeeds, and nothing was counted twice
			p.room.bound = 100
			if err := p.handle(t.Context(), claim, records); err != nil {
				t.Error(err)
			}
			if d := different(m.totals(t), recompute([]ledger.Entry{good, entry(t, "2", "acme", "run", start.Add(time.Hour), "0.2")})); d != "" {
				t.Error(d)
			}
		} else if len(m.totals(t)) != 5 {
			t.Errorf("%s: what came before was not published", c.name)
		}
	}
	if err := newProcess(t, newMemory()).handle(t.Context(), claimOf(0, 1), nil); err == nil {
		t.Error("a partition that was not assigned was handled")
	}
}

func FuzzDecode(f *testing.F) {
	for _, k := range keysOf(entry(f, "1", "acme", "run", start, "0.1")) {
		value, err := encode(k, (&book{}).totals[k], 3)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Add([]byte{0xff})
	total, err := proto.Marshal(&weirv1.WindowTotal{TenantId: "a", Kind: weirv1.WindowKind_WINDOW_KIND_DAY, Window: 1, Version: 1, RawCostUsd: "0.10", BilledCostUsd: "0"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(total)
	f.Fuzz(func(t *testing.T, value []byte) {
		k, total, m, err := decode(value)
		if err != nil {
			return
		}
		again, err := encode(k, total, m.GetGeneration())
		if err != nil {
			return // not UTF-8
		}
		if k2, total2, _, err := decode(again); err != nil || k2 != k || total2.Version != total.Version || total2.Raw.Cmp(total.Raw) != 0 {
			t.Fatalf("%v: %+v / %+v", err, total, total2)
		}
	})
}
