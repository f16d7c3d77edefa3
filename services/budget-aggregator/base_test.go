package budgetaggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// mark writes a marker into one partition of the journal.
func mark(t testing.TB, m *memory, partition int32, epoch int64, phase ledger.Phase, at time.Time) {
	t.Helper()
	if err := m.Produce(t.Context(), marker(t, partition, epoch, phase, at)); err != nil {
		t.Fatal(err)
	}
}

func marker(t testing.TB, partition int32, epoch int64, phase ledger.Phase, at time.Time) bus.Record {
	t.Helper()
	r, err := ledgercodec.Record(ledger.NewMarker(fmt.Sprintf("epoch:%d:%s:%d", epoch, phase, partition), ledger.Marker{Epoch: epoch, Phase: phase}, at,
		ledger.Position{Topic: "usage.events.v1", Partition: partition}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spread moves a third of the entries up to 100 days back, so that every limit of a base is crossed.
func spread(rng *rand.Rand, entries []ledger.Entry) {
	for i := range entries {
		if rng.IntN(3) == 0 {
			entries[i].EventTime = entries[i].EventTime.Add(-time.Duration(rng.IntN(100*24)) * time.Hour)
			entries[i].Windows = window.KeysAt(entries[i].EventTime, time.UTC)
		}
	}
}

// wantBase recomputes a base from the entries before its marker, with none of the code under test.
func wantBase(entries []ledger.Entry, epoch int64, at time.Time) map[string]string {
	latest := map[string]time.Time{}
	for _, e := range entries {
		k := e.TenantID + "\x00execution\x00" + e.Lineage.RootExecutionID
		if e.EventTime.After(latest[k]) {
			latest[k] = e.EventTime
		}
	}
	out := map[string]string{}
	for k, text := range recompute(entries) {
		parts := strings.Split(k, "\x00")
		kind, label := parts[1], parts[2]
		if len(parts) == 5 {
			kind, label = parts[3], parts[4]
		}
		in := false
		switch kind {
		case "minute":
			begin, _ := strconv.ParseInt(label, 10, 64)
			in = time.Unix(begin, 0).Add(time.Minute).After(at.Add(-10 * time.Minute))
		case "day":
			in = label >= at.AddDate(0, 0, -32).Format("20060102")
		case "month":
			yesterday := at.AddDate(0, 0, -1)
			in = label >= yesterday.AddDate(0, 0, 1-yesterday.Day()).AddDate(0, -2, 0).Format("200601")
		case "execution":
			in = !latest[k].Before(at.Add(-49 * time.Hour))
		}
		if in {
			out[parts[0]+"\x00base\x00"+fmt.Sprint(epoch)+"\x00"+strings.Join(parts[1:], "\x00")] = text
		}
	}
	return out
}

// expected is what must be known of a partition's base: its marker's offset and its totals.
type expected struct {
	epoch, offset int64
	totals        map[string]string
}

// expect reads the bases that the journal of a partition asks for.
func expect(t testing.TB, records []bus.Record) []expected {
	t.Helper()
	var out []expected
	var before []ledger.Entry
	for i, r := range records {
		e, err := ledgercodec.Unmarshal(r.Value)
		switch {
		case err != nil:
			t.Fatal(err)
		case !e.IsMarker():
			before = append(before, e)
		case e.Marker.Phase == ledger.Raised:
			out = append(out, expected{e.Marker.Epoch, int64(i), wantBase(before, e.Marker.Epoch, e.RecordedAt)})
		}
	}
	return out
}

// checkBases walks an output partition as a reader does: when it has met the end and as many totals as that tells of, the
// base is right; afterwards it never changes; and finally only the last epoch's is left. (A base that was written again
// because the acknowledgement of its end was lost may be partly behind the end, once compaction took what stood before.)
func checkBases(t testing.TB, output []bus.Record, want []expected) string {
	t.Helper()
	of := map[int64]expected{}
	for _, w := range want {
		of[w.epoch] = w
	}
	live, ended := map[string]string{}, map[int64]bool{}
	for _, r := range output {
		key := string(r.Key)
		if r.Value == nil {
			delete(live, key)
			continue
		}
		_, _, m, err := decode(r.Value)
		if err != nil || m.GetBaseEpoch() == 0 {
			continue
		}
		w, known := of[m.GetBaseEpoch()]
		if !known || m.GetVersion() != w.offset+1 {
			return fmt.Sprintf("%q has version %d, want %d", key, m.GetVersion(), w.offset+1)
		}
		if m.GetKind() == weirv1.WindowKind_WINDOW_KIND_BASE_END {
			if int(m.GetEntries()) != len(w.totals) || key != fmt.Sprintf("\x00base\x00%d\x00end", w.epoch) {
				return fmt.Sprintf("%q tells of %d totals, want %d", key, m.GetEntries(), len(w.totals))
			}
			ended[w.epoch], live[key] = true, "end"
		} else if live[key] = summed(t, m); ended[w.epoch] && live[key] != w.totals[key] {
			return fmt.Sprintf("%q changed after the end to %s, want %s", key, live[key], w.totals[key])
		}
		if got := baseOf(live, w.epoch); ended[w.epoch] && len(got) >= len(w.totals) {
			if d := different(got, w.totals); d != "" {
				return fmt.Sprintf("at the end of base %d: %s", w.epoch, d)
			}
		}
	}
	for i, w := range want {
		left := baseOf(live, w.epoch)
		if i < len(want)-1 && len(left) > 0 {
			return fmt.Sprintf("%d totals of epoch %d were not removed", len(left), w.epoch)
		}
		if i == len(want)-1 {
			if d := different(left, w.totals); d != "" || !ended[w.epoch] {
				return fmt.Sprintf("base %d, ended %v: %s", w.epoch, ended[w.epoch], d)
			}
		}
	}
	return ""
}

// baseOf are the live totals of one epoch, or of its end alone nothing.
func baseOf(live map[string]string, epoch int64) map[string]string {
	out := map[string]string{}
	for k, text := range live {
		if strings.Contains(k, fmt.Sprintf("\x00base\x00%d\x00", epoch)) && text != "end" {
			out[k] = text
		}
	}
	return out
}

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
	m, partition, records := lossWorld(t)
	mark(t, m, partition, 3, ledger.Barrier, start) // again: a dead owner of the journal's
	records = m.records[topics.LedgerEntries.Name()][partition]
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
