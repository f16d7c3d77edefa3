package budgetaggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// Goal: whatever the batches, crashes (before the dirty totals, after them, in the base, before and after its end, before
// the commit), take-overs, compactions, repeated ids and repeated markers: each base is the plain sums as of its marker.
func TestBasesAreThePlainSums(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		entries := someEntries(t, rng, rapid.IntRange(1, 100).Draw(rt, "entries"))
		spread(rng, entries)
		m := newMemory()
		epoch := int64(0)
		for i := range entries {
			put(t, m.Produce, entries[rng.IntN(i+1)]) // some are never written, others again and again
			if rng.IntN(25) == 0 || i == len(entries)-1 {
				epoch++
				for p := range int32(topics.LedgerEntries.Partitions()) {
					mark(t, m, p, epoch, ledger.Raised, start.Add(time.Duration(rng.IntN(72)-36)*time.Hour))
					for range rng.IntN(3) {
						mark(t, m, p, epoch, ledger.Barrier, start)
					}
				}
			}
		}
		var all []ledger.Entry
		for partition := range int32(topics.LedgerEntries.Partitions()) {
			records := m.records[topics.LedgerEntries.Name()][partition]
			run(t, rt, m, partition, records)
			if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], expect(t, records)); d != "" {
				rt.Fatalf("partition %d: %s", partition, d)
			}
			for _, r := range records {
				if e, err := ledgercodec.Unmarshal(r.Value); err == nil && !e.IsMarker() {
					all = append(all, e)
				}
			}
		}
		if d := different(m.totals(t), recompute(all)); d != "" {
			rt.Fatal(d)
		}
	})
}

// Goal: a root that was idle for days keeps what it has spent: admission lets it live, and be resumed, for a week.
func TestBaseReachesBackAWeek(t *testing.T) {
	m, partition := newMemory(), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	put(t, m.Produce, entry(t, "old", "acme", "over", start.Add(-9*24*time.Hour), "0.1"), entry(t, "idle", "acme", "idle", start.Add(-7*24*time.Hour), "0.2"))
	mark(t, m, partition, 1, ledger.Raised, start)
	p := newProcess(t, m)
	if err := p.assign(t, claimOf(partition, 1), -1); err != nil {
		t.Fatal(err)
	}
	if err := p.handle(t.Context(), claimOf(partition, 1), m.records[topics.LedgerEntries.Name()][partition]); err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{}
	for _, r := range m.records[topics.BudgetWindows.Name()][partition] {
		in[string(r.Key)] = true
	}
	if !in["acme\x00base\x001\x00execution\x00idle"] || in["acme\x00base\x001\x00execution\x00over"] {
		t.Errorf("in the base: %v", in)
	}
}

// lossWorld is a partition with entries around two markers.
func lossWorld(t *testing.T) (*memory, int32, []bus.Record) {
	t.Helper()
	m, partition := newMemory(), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	other := neighbour(partition)
	for i := range 6 {
		put(t, m.Produce, entry(t, fmt.Sprint("a", i), "acme", "run", start, "0.1"), entry(t, fmt.Sprint("b", i), other, "", start.Add(-time.Duration(i)*24*time.Hour), "0.2"))
		if i == 1 || i == 3 {
			mark(t, m, partition, int64(i), ledger.Raised, start.Add(time.Minute))
			mark(t, m, partition, int64(i), ledger.Barrier, start.Add(3*time.Minute))
		}
	}
	return m, partition, m.records[topics.LedgerEntries.Name()][partition]
}

// Goal: killed after any single record of the output, from the first dirty total to the last tombstone, with the offsets
// committed or not: the next owner makes the same bases of it.
func TestBaseIsTheSameAfterAnyCrash(t *testing.T) {
	for cut := 0; ; cut++ {
		m, partition, records := lossWorld(t)
		first := newProcess(t, m)
		if err := first.assign(t, claimOf(partition, 1), -1); err != nil {
			t.Fatal(err)
		}
		first.cut = cut
		committed := int64(-1)
		for from := 0; from < len(records); from += 5 {
			to := min(from+5, len(records))
			if err := first.handle(t.Context(), claimOf(partition, 1), records[from:to]); err != nil {
				break
			}
			committed = int64(to)
		}
		next := newProcess(t, m)
		if err := next.assign(t, claimOf(partition, 2), committed); err != nil {
			t.Fatal(err)
		}
		if from := max(0, committed); from < int64(len(records)) {
			if err := next.handle(t.Context(), claimOf(partition, 2), records[from:]); err != nil {
				t.Fatal(err)
			}
		}
		if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], expect(t, records)); d != "" {
			t.Fatalf("cut after %d: %s", cut, d)
		}
		if committed == int64(len(records)) {
			if cut < 20 {
				t.Fatalf("only %d records were written", cut)
			}
			return
		}
	}
}

// Goal: an error in the middle of a batch, behind a marker: the batch comes again to the same process, whose totals have
// gone past the marker. The base is not made of them.
func TestBatchComesAgainBehindItsMarker(t *testing.T) {
	m, partition, records := lossWorld(t)
	p := newProcess(t, m)
	if err := p.assign(t, claimOf(partition, 1), -1); err != nil {
		t.Fatal(err)
	}
	for p.cut = 0; ; p.cut += 3 {
		cut := p.cut
		if err := p.handle(t.Context(), claimOf(partition, 1), records); err == nil {
			break
		}
		p.cut = cut
	}
	if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], expect(t, records)); d != "" {
		t.Error(d)
	}
}

// Goal: when the output was lost after its marker was committed, a restore makes the base again, as of the marker and not as
// of now, and a partition that ends with markers is not folded again for nothing.
func TestRestoreMakesALostBaseAgain(t *testing.T) {
	m, partition, _ := lossWorld(t)
	mark(t, m, partition, 3, ledger.Barrier, start) // again: a dead owner of the journal's
	records := m.records[topics.LedgerEntries.Name()][partition]
	first := newProcess(t, m)
	if err := errors.Join(first.assign(t, claimOf(partition, 1), -1), first.handle(t.Context(), claimOf(partition, 1), records)); err != nil {
		t.Fatal(err)
	}
	second := newProcess(t, m)
	if err := second.assign(t, claimOf(partition, 2), int64(len(records))); err != nil || testutil.ToFloat64(second.metrics.refolds) != 0 || testutil.ToFloat64(second.metrics.bases) != 0 {
		t.Errorf("%v, %v refolds, %v bases without need", err, testutil.ToFloat64(second.metrics.refolds), testutil.ToFloat64(second.metrics.bases))
	}
	m.records[topics.BudgetWindows.Name()][partition] = nil
	third := newProcess(t, m)
	if err := third.assign(t, claimOf(partition, 3), int64(len(records))); err != nil {
		t.Fatal(err)
	}
	want := expect(t, records)
	if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], want[len(want)-1:]); d != "" {
		t.Error(d)
	}
	if used, held := third.room.used.Load(), len(third.book(partition).totals); used != int64(held) {
		t.Errorf("%d totals of %d are accounted for", used, held)
	}
}

// Goal: a dead owner that wakes up writes an old base, its end, and tombstones: readers of the last epoch see no difference,
// totals are not disturbed, and what it left is removed by the owner's read-along and by the next restore.
func TestDeadOwnersLateBase(t *testing.T) {
	for _, how := range []string{"read-along", "restore", "compacted restore"} {
		m, partition, records := lossWorld(t)
		dead := newProcess(t, m)
		if err := errors.Join(dead.assign(t, claimOf(partition, 1), -1), dead.handle(t.Context(), claimOf(partition, 1), records[:4])); err != nil {
			t.Fatal(err)
		}
		owner := newProcess(t, m)
		if err := errors.Join(owner.assign(t, claimOf(partition, 2), 4), owner.handle(t.Context(), claimOf(partition, 2), records[4:])); err != nil {
			t.Fatal(err)
		}
		if err := dead.handle(t.Context(), claimOf(partition, 1), records[4:6]); err != nil { // base 1 again, under a generation that is over
			t.Fatal(err)
		}
		if owner.book(partition).ended != 3 || dead.book(partition).ended != 1 {
			t.Fatalf("ended %d and %d", owner.book(partition).ended, dead.book(partition).ended)
		}
		next := owner
		switch how {
		case "read-along":
			if err := owner.repair(context.Background(), owner.book(partition)); err != nil {
				t.Fatal(err)
			}
		default:
			if how == "compacted restore" {
				m.compact(partition)
			}
			next = newProcess(t, m)
			if err := next.assign(t, claimOf(partition, 3), int64(len(records))); err != nil {
				t.Fatal(err)
			}
		}
		if got := testutil.ToFloat64(next.metrics.overwritten) + testutil.ToFloat64(next.metrics.refolds); got != 0 {
			t.Errorf("%s: a base made %v totals or partitions be written again", how, got)
		}
		m.compact(partition)
		want := expect(t, records)
		if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], want[len(want)-1:]); d != "" {
			t.Errorf("%s: %s", how, d)
		}
		if next.book(partition).ended != 3 {
			t.Errorf("%s: ended %d", how, next.book(partition).ended)
		}
	}
}

// Goal: a marker that is not of its partition stops it, as an entry of another partition does.
func TestMarkerOfAnotherPartition(t *testing.T) {
	m := newMemory()
	mark(t, m, 0, 1, ledger.Raised, start)
	r := m.records[topics.LedgerEntries.Name()][0][0]
	r.Partition = 1
	p := newProcess(t, m)
	if err := p.assign(t, claimOf(1, 1), -1); err != nil {
		t.Fatal(err)
	}
	if err := p.handle(t.Context(), claimOf(1, 1), []bus.Record{r}); err == nil || !strings.Contains(err.Error(), "belongs to partition 0") {
		t.Errorf("%v", err)
	}
}

// Goal: the acknowledgement of an end is lost, so its base is begun again, and the process dies in it; an hour later
// compaction has taken what stood before the end. A reader that begins then meets a complete base, because whoever restores
// writes the end again; and so does the owner whose base a dead one has begun again.
func TestEndIsWrittenAgainBehindItsTotals(t *testing.T) {
	for _, how := range []string{"restore", "read-along"} {
		m, partition, records := lossWorld(t)
		first := newProcess(t, m)
		if err := errors.Join(first.assign(t, claimOf(partition, 1), -1), first.handle(t.Context(), claimOf(partition, 1), records)); err != nil {
			t.Fatal(err)
		}
		again := m.records[topics.BudgetWindows.Name()][partition]
		again = again[slices.IndexFunc(again, func(r bus.Record) bool { return strings.Contains(string(r.Key), "\x00base\x003\x00") }):]
		if err := m.Produce(t.Context(), again[:2]...); err != nil {
			t.Fatal(err)
		}
		if how == "restore" {
			m.compact(partition)
			next := newProcess(t, m)
			if err := next.assign(t, claimOf(partition, 2), int64(len(records))); err != nil {
				t.Fatal(err)
			}
		} else {
			first.book(partition).readTo = again[len(again)-1].Offset + 1
			if err := first.repair(t.Context(), first.book(partition)); err != nil {
				t.Fatal(err)
			}
			m.compact(partition)
		}
		want := expect(t, records)
		if d := checkBases(t, m.records[topics.BudgetWindows.Name()][partition], want[len(want)-1:]); d != "" {
			t.Errorf("%s: %s", how, d)
		}
	}
}
