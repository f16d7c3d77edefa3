package breaker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/breaker"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
)

func TestSignal(t *testing.T) {
	e := entry(1, "acme", "run", 7)
	e.Own = 5
	for _, c := range []struct {
		kind  ledger.Kind
		calls int64
		none  bool
	}{
		{ledger.Usage, 1, false}, {ledger.Unsettled, 1, false}, {ledger.Reversal, -1, false}, {ledger.Correction, 0, false}, {ledger.Adjustment, 0, false}, {ledger.Termination, 0, true},
		{ledger.EpochMarker, 0, true},
	} {
		e.Kind = c.kind
		s, ok := signal(e)
		if ok == c.none || ok && (s.Calls != c.calls || s.Cost != 12 || s.Depth != 1 || s.Parent != "p" || !s.At.Equal(e.RecordedAt)) {
			t.Errorf("%s: %+v, %v", c.kind, s, ok)
		}
	}
	e.Kind, e.Lineage.RootExecutionID = ledger.Usage, ""
	if _, ok := signal(e); ok {
		t.Error("an entry outside an execution is a signal")
	}
}

// tripsOf is a plain recomputation: root → reason and time of the first entry, each id once, after which it is over a limit.
func tripsOf(entries []ledger.Entry) map[root]string {
	type sums struct {
		cost  money.Nano
		calls int
		depth int32
	}
	seen, all, out := map[string]bool{}, map[root]sums{}, map[root]string{}
	for _, e := range entries {
		id := root{e.TenantID, e.Lineage.RootExecutionID}
		if seen[e.ID] || id.execution == "" {
			continue
		}
		seen[e.ID] = true
		s := all[id]
		s.cost, s.depth = s.cost+e.Own+e.External, max(s.depth, e.Lineage.Depth)
		if e.Kind == ledger.Reversal {
			s.calls--
		} else {
			s.calls++
		}
		all[id] = s
		why := ""
		switch {
		case s.cost > 5_000_000_000:
			why = "cost"
		case s.calls > 10:
			why = "calls"
		case s.depth > 3:
			why = "depth"
		}
		if why != "" && out[id] == "" {
			out[id] = why + " " + e.RecordedAt.Format(time.RFC3339)
		}
	}
	return out
}

// Whatever the batches, crashes, restarts and repeated ids: each root that passes a limit ends, for the same reason and at the
// same time, and no other one does.
func TestTripsAreThePlainSums(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var entries []ledger.Entry
		for i := range rapid.IntRange(1, 80).Draw(rt, "entries") {
			e := entry(i, fmt.Sprintf("tenant-%d", rapid.IntRange(0, 2).Draw(rt, "tenant")), fmt.Sprintf("run-%d", rapid.IntRange(0, 2).Draw(rt, "root")),
				money.Nano(rapid.Int64Range(0, 1_500_000_000).Draw(rt, "nanos")))
			e.Lineage.Depth = rapid.SampledFrom([]int32{0, 1, 1, 1, 1, 1, 1, 2, 3, 4}).Draw(rt, "depth")
			switch rapid.IntRange(0, 9).Draw(rt, "kind") {
			case 0:
				e.Kind, e.External = ledger.Reversal, -e.External
			case 1:
				e.Lineage.RootExecutionID = ""
			}
			entries = append(entries, e)
			if rapid.IntRange(0, 9).Draw(rt, "again") == 0 { // a dead owner's late write
				entries = append(entries, entries[rapid.IntRange(0, len(entries)-1).Draw(rt, "which")])
			}
		}
		m := newMemory()
		m.put(t, entries...)
		for partition, records := range m.journal {
			run(t, rt, m, partition, records)
		}
		want := tripsOf(entries)
		for id, trip := range want {
			if len(m.out.events[id]) == 0 || len(m.out.revocations[id]) == 0 {
				rt.Fatalf("%v did not end", id)
			}
			for _, got := range m.out.events[id] {
				if got != trip {
					rt.Fatalf("%v ended as %s, want %s", id, got, trip)
				}
			}
		}
		if len(m.out.events) != len(want) || len(m.out.revocations) != len(want) {
			rt.Fatalf("ended: %v, want %v", m.out.events, want)
		}
	})
}

func run(t *testing.T, rt *rapid.T, m *memory, partition int32, records []bus.Record) {
	committed := int64(-1)
	var p *process
	for committed < int64(len(records)) {
		if p == nil {
			p = newProcess(t, m)
			if _, err := p.journal.assigned(context.Background(), claimOf(partition), bus.Committed{Offset: committed}); err != nil {
				rt.Fatal(err)
			}
		}
		from := max(0, committed)
		to := min(int64(len(records)), from+rapid.Int64Range(1, 20).Draw(rt, "batch"))
		p.cut = rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 3}).Draw(rt, "crash after")
		err := p.journal.handle(context.Background(), claimOf(partition), records[from:to])
		switch {
		case err != nil && rapid.Bool().Draw(rt, "retry"):
		case err != nil || rapid.IntRange(0, 4).Draw(rt, "crash before commit") == 0:
			p = nil
		default:
			committed = to
		}
	}
}

// Without a crash there is one event and one revocation, and both carry the entry's time.
func TestRunawayLoop(t *testing.T) {
	m := newMemory()
	for i := range 30 {
		m.put(t, entry(i, "acme", "loop", 1_000_000_000))
	}
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	if _, err := p.journal.assigned(t.Context(), claimOf(partition), bus.Committed{Offset: -1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.journal[partition] {
		if err := p.journal.handle(t.Context(), claimOf(partition), []bus.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	// And the tenant's own refusal comes later, twice.
	refused := []bus.Record{decision(t, "acme", "loop", true), decision(t, "acme", "loop", true)}
	if err := p.decisions.handle(t.Context(), bus.Claim{}, refused); err != nil {
		t.Fatal(err)
	}
	id := root{"acme", "loop"}
	if got := fmt.Sprint(m.out.events[id]); got != "[cost 2026-11-30T10:00:05Z]" {
		t.Errorf("events %s", got)
	}
	if got := fmt.Sprint(m.out.revocations[id]); got != "[cost 6 of 5 at 2026-11-30T10:00:05Z]" {
		t.Errorf("revocations %s", got)
	}
	if got := testutil.ToFloat64(p.journal.metrics.trips.WithLabelValues("cost")); got != 1 {
		t.Errorf("%v trips counted", got)
	}
	if got := testutil.ToFloat64(p.journal.metrics.widest); got != 30 {
		t.Errorf("widest fan-out %v", got)
	}
}

func TestDecisions(t *testing.T) {
	m := newMemory()
	p := newProcess(t, m)
	batch := []bus.Record{decision(t, "acme", "deep", true), decision(t, "acme", "fine", false), decision(t, "acme", "", true), decision(t, "acme", "deep", true),
		{Topic: topics.AdmissionDecisions, Value: []byte{0xff}}}
	p.cut = 1 // the event is out, the revocation is not
	if err := p.decisions.handle(t.Context(), bus.Claim{}, batch); err == nil {
		t.Fatal("a cut publication was committed")
	}
	if len(m.out.events) != 1 || len(m.out.revocations) != 0 {
		t.Errorf("the event comes first: %v", m.out)
	}
	p = newProcess(t, m)
	for range 2 {
		if err := p.decisions.handle(t.Context(), bus.Claim{}, batch); err != nil {
			t.Fatal(err)
		}
	}
	id := root{"acme", "deep"}
	if got := fmt.Sprint(m.out.events[id]); got != "[admission 2026-11-30T10:00:00Z admission 2026-11-30T10:00:00Z]" || len(m.out.events) != 1 {
		t.Errorf("events %v", m.out.events)
	}
	if got := fmt.Sprint(m.out.revocations[id]); got != "[admission execution_budget_exceeded of max_cost_usd at 2026-11-30T10:00:00Z]" {
		t.Errorf("revocations %s", got)
	}
	if got := testutil.ToFloat64(p.decisions.metrics.malformed); got != 4 {
		t.Errorf("%v malformed", got)
	}
}

// A contract that was lowered while the breaker was away ends what is over it now.
func TestRestoreEndsWhatIsOver(t *testing.T) {
	m := newMemory()
	for i := range 4 {
		m.put(t, entry(i, "acme", "run", 1_000_000_000))
	}
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	p.journal.limits = func(string, time.Time) tenant.Execution { return tenant.Execution{MaxCost: 2_000_000_000} }
	for range 2 { // a second time changes nothing
		if _, err := p.journal.assigned(t.Context(), claimOf(partition), bus.Committed{Offset: 4}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(m.out.revocations[root{"acme", "run"}]); got != "[cost 3 of 2 at 2026-11-30T10:00:02Z]" {
		t.Errorf("%s", got)
	}
}

// The journal is read back from the age of a root before the last entry handled, by the journal's own time.
func TestRestoreReachesBackByTheAgeOfARoot(t *testing.T) {
	m := newMemory()
	old, young, last := entry(0, "acme", "old", 1), entry(1, "acme", "young", 2), entry(2, "acme", "last", 3)
	old.RecordedAt, young.RecordedAt, last.RecordedAt = start.Add(-25*time.Hour), start.Add(-23*time.Hour), start
	m.put(t, old, young, last)
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	if _, err := p.journal.assigned(t.Context(), claimOf(partition), bus.Committed{Offset: 3}); err != nil {
		t.Fatal(err)
	}
	roots := p.journal.book(partition).roots
	if len(roots) != 2 || roots[root{"acme", "young"}].state.Cost != 2 || roots[root{"acme", "last"}].state.Cost != 3 {
		t.Errorf("%+v", roots)
	}
	p.journal.release(claimOf(partition))
	if p.journal.room.used.Load() != 0 || p.journal.handle(t.Context(), claimOf(partition), nil) == nil {
		t.Error("released, but still there")
	}
}

func TestBound(t *testing.T) {
	m := newMemory()
	first, second, third := entry(0, "acme", "one", 1), entry(1, "acme", "two", 1), entry(2, "acme", "three", 1)
	third.RecordedAt = start.Add(30 * time.Hour) // by then the first two are over
	m.put(t, first, second, third)
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	p.journal.room.bound = 1
	if _, err := p.journal.assigned(t.Context(), claimOf(partition), bus.Committed{Offset: -1}); err != nil {
		t.Fatal(err)
	}
	records := m.journal[partition]
	if err := p.journal.handle(t.Context(), claimOf(partition), records); err == nil || !strings.Contains(err.Error(), "-max-executions (1)") {
		t.Fatalf("%v", err)
	}
	p.journal.room.bound = 2
	if err := p.journal.handle(t.Context(), claimOf(partition), records); err != nil {
		t.Fatal(err)
	}
	if b := p.journal.book(partition); len(b.roots) != 1 || p.journal.room.used.Load() != 1 {
		t.Errorf("%+v", b.roots)
	}
	bad := records[2]
	bad.Offset, bad.Value = 3, []byte("x")
	if err := p.journal.handle(t.Context(), claimOf(partition), []bus.Record{bad}); err == nil {
		t.Error("what is no entry was passed over")
	}
}

// A record that a producer dated years ahead makes no other execution old: at the bound the partition stops, and forgets none
// that runs, whose cost would begin anew.
func TestClockAheadForgetsNoExecution(t *testing.T) {
	m := newMemory()
	ahead := entry(1, "acme", "ahead", 1)
	ahead.RecordedAt = start.Add(20 * 365 * 24 * time.Hour)
	m.put(t, entry(0, "acme", "runs", 1), ahead, entry(2, "acme", "late", 1))
	p, partition := newProcess(t, m), bus.PartitionFor([]byte("acme"), topics.LedgerEntries.Partitions())
	p.journal.room.bound = 2
	p.journal.now = func() time.Time { return start.Add(time.Minute) }
	if _, err := p.journal.assigned(t.Context(), claimOf(partition), bus.Committed{Offset: -1}); err != nil {
		t.Fatal(err)
	}
	if err := p.journal.handle(t.Context(), claimOf(partition), m.journal[partition]); err == nil || !strings.Contains(err.Error(), "-max-executions (2)") {
		t.Errorf("%v", err)
	}
	if _, there := p.journal.book(partition).roots[root{"acme", "runs"}]; !there {
		t.Error("an execution that runs is forgotten")
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add(decision(f, "acme", "run", true).Value)
	f.Add(decision(f, "", "", true).Value)
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		id, s, trip, err := refusal(value)
		if err != nil || !trip {
			return
		}
		if _, got := breaker.Step(breaker.State{}, s, tenant.Execution{}); got == nil || id.tenant == "" || id.execution == "" || got.Reason != breaker.Admission {
			t.Fatalf("%+v %+v", id, s)
		}
	})
}
