package budgetaggregator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

const day = 24 * time.Hour

// inBranch is a call in a branch, which was recorded so long after it happened.
func inBranch(t testing.TB, id, branch string, at time.Time, late time.Duration) ledger.Entry {
	t.Helper()
	e := entry(t, id, "acme", "run", at, "0.1")
	e.RecordedAt, e.Scopes = at.Add(late), []window.Scope{{Kind: window.Branch, ID: branch}}
	return e
}

// live are the record keys of branches in the output that no tombstone removes.
func (m *memory) live() []string {
	keys := map[string]bool{}
	for _, records := range m.records[topics.BudgetWindows.Name()] {
		for _, r := range records {
			if _, ok := buried(r.Key); ok {
				keys[string(r.Key)] = r.Value != nil
			}
		}
	}
	maps.DeleteFunc(keys, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(keys))
}

// texts are the totals that a book has, by name.
func (b *book) texts() []string {
	var out []string
	for k, total := range b.totals {
		out = append(out, fmt.Sprint(k.text(), " ", total.Version, " ", total.Own))
	}
	return slices.Sorted(slices.Values(out))
}

// Goal: a branch of which nothing can come any more leaves memory and output, killed at whatever record of that; one that may
// go on stays; what comes too late counts everywhere but there; and whoever restores, or folds everything again, agrees.
func TestBranchesEnd(t *testing.T) {
	partition := bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	for cut := -1; cut < 16; cut++ {
		m := newMemory()
		put(t, m.Produce, inBranch(t, "1", "old", start, 0), inBranch(t, "2", "idle", start.Add(3*day), 0), inBranch(t, "3", "old", start.Add(day), 0),
			inBranch(t, "4", "late", start.Add(9*day), 9*day), // the last moment, and one too late for "old"
			inBranch(t, "5", "old", start.Add(10*day), 9*day+time.Second))
		records := m.records[topics.LedgerEntries.Name()][partition]
		p, generation, committed := newProcess(t, m), int32(1), int64(-1)
		if err := p.assign(t, claimOf(partition, generation), committed); err != nil {
			t.Fatal(err)
		}
		p.cut = cut
		for i := range records { // one by one, so that age is looked at with each
			for p.handle(t.Context(), claimOf(partition, generation), records[i:i+1]) != nil {
				p.release(claimOf(partition, generation))
				p, generation = newProcess(t, m), generation+1
				if err := p.assign(t, claimOf(partition, generation), committed); err != nil {
					t.Fatal(err)
				}
			}
			committed = int64(i + 1)
		}
		want := []string{"acme\x00execution_branch\x00idle", "acme\x00execution_branch\x00late"}
		if got := m.live(); !slices.Equal(got, want) {
			t.Fatalf("cut %d: in the output: %q", cut, got)
		}
		b := p.book(partition)
		if used := p.room.used.Load(); used != int64(len(b.totals)) {
			t.Errorf("cut %d: %d totals, but room for %d is used", cut, len(b.totals), used)
		}
		for name, restore := range map[string]func(*memory){"restored": func(*memory) {}, "compacted": func(m *memory) { m.compact(partition) },
			"folded again": func(m *memory) { m.records[topics.BudgetWindows.Name()][partition] = nil }} {
			other := newMemory()
			for topic, of := range m.records {
				other.records[topic], other.next[topic] = maps.Clone(of), maps.Clone(m.next[topic])
			}
			restore(other)
			second := newProcess(t, other)
			if err := second.assign(t, claimOf(partition, generation+1), committed); err != nil {
				t.Fatal(err)
			}
			if got := second.book(partition); !slices.Equal(got.texts(), b.texts()) || second.room.used.Load() != int64(len(b.totals)) {
				t.Errorf("cut %d, %s: %q, want %q", cut, name, got.texts(), b.texts())
			}
			if got := other.live(); !slices.Equal(got, want) {
				t.Errorf("cut %d, %s: in the output: %q", cut, name, got)
			}
		}
	}
}

// A record that a producer dated years ahead ends no branch: what comes after it adds to what came before.
func TestClockAheadEndsNoBranch(t *testing.T) {
	m := newMemory()
	ahead := entry(t, "2", "acme", "other", start, "0.1")
	ahead.RecordedAt = start.Add(20000 * day)
	put(t, m.Produce, inBranch(t, "1", "b", start, 0), ahead, inBranch(t, "3", "b", start.Add(time.Hour), 0))
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	p.now = func() time.Time { return start.Add(day) }
	if err := p.assign(t, claimOf(partition, 1), -1); err != nil {
		t.Fatal(err)
	}
	if err := p.handle(t.Context(), claimOf(partition, 1), m.records[topics.LedgerEntries.Name()][partition]); err != nil {
		t.Fatal(err)
	}
	of := key{"acme", weirv1.ScopeKind_SCOPE_KIND_EXECUTION_BRANCH, "b", weirv1.WindowKind_WINDOW_KIND_EXECUTION, 0}
	if total := p.book(partition).totals[of]; total.Entries != 2 || total.Own != 200_000_000 {
		t.Errorf("%+v", total)
	}
}
