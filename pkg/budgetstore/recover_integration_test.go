//go:build integration

package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

const nextEpoch = testEpoch + 1

func (w *world) maker() Maker { return Maker{Epoch: nextEpoch, Generation: 10} }

// receipt is a hold of the lost epoch, as its receipt would have it.
func (w *world) receipt(r Request, ref Ref) PendRequest {
	return PendRequest{Ref: Ref{Tenant: Tenant{ID: w.tenant.ID, Epoch: nextEpoch}, ID: r.ID, ReservedAt: ref.ReservedAt}, Day: 20260630, Month: 202606,
		Held: r.Estimate, Lease: time.Minute, Fingerprint: r.Fingerprint, Execution: r.Execution, Limits: r.Limits, Context: r.Context, Most: 10}
}

// next makes the world's tenant one of the next epoch, ready.
func (w *world) next() {
	w.t.Helper()
	w.tenant.Epoch = nextEpoch
	w.must(w.store.MarkReady(w.t.Context(), w.tenant))
}

func (w *world) load(m Maker, b Base) {
	w.t.Helper()
	_, err := w.store.LoadBase(w.t.Context(), w.tenant.ID, m, b)
	w.must(err)
}

// clear removes what the lost epoch left, as whoever makes the next one does before anybody leaves a receipt.
func (w *world) clear() {
	w.t.Helper()
	_, err := w.store.ClearOthers(w.t.Context(), w.maker(), alive)
	w.must(err)
}

func alive(context.Context) error { return nil }

// Goal: counters made from the books are those that the script would have: each window, the minute by its seconds, the
// execution, the holds whose owners showed their receipts; and everything goes on from there.
func TestBase(t *testing.T) {
	w := newWorld(t)
	lost := w.request(5 * dollar)
	lost.Execution = admit.Execution{Root: "x", ExecutionLimits: admit.ExecutionLimits{MaxCost: 100 * dollar}}
	dead := w.request(7 * dollar)
	ref := w.admit(lost)
	w.admit(dead)
	pending := w.receipt(lost, ref)
	if _, err := w.store.Pend(t.Context(), pending); !errors.Is(err, ErrEpoch) {
		t.Errorf("left where the lost epoch still is: %v", err)
	}
	w.clear()
	reply, err := w.store.Pend(t.Context(), pending)
	w.must(err)
	if !reply.Found || reply.Held.Nanos != 5*dollar {
		t.Fatalf("%+v", reply)
	}
	pending.Held.Nanos, pending.Lease = 6*dollar, 2*time.Minute // the stream went on
	reply, err = w.store.Pend(t.Context(), pending)
	w.must(err)
	minute := w.clock.now().Unix() / 60 * 60
	base := Base{Offset: 77,
		Own: []OwnTotal{{MonthScope, 202606, 40 * dollar, 0, 0, 0}, {DayScope, 20260629, 30 * dollar, 0, 0, 0}, {DayScope, 20260630, 10 * dollar, 0, 0, 0},
			{DayScope, 20260501, dollar, 0, 0, 0}, {MinuteScope, minute, 3 * dollar, 2, 100, 200}, {MinuteScope, minute - 60, dollar, 1, 10, 20}, {MinuteScope, minute - 120, dollar, 9, 9, 9}},
		External:   []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 70, Nanos: dollar}, {Scope: MonthScope, Window: 202606, Version: 70, Nanos: 2 * dollar}},
		Executions: []ExecutionTotal{{Root: "x", Own: 4 * dollar, External: dollar, Calls: 3, Version: 70, LastUsed: w.clock.now()}}}
	for range 2 { // every step may be done again
		_, err = w.store.ClearOthers(t.Context(), w.maker(), alive)
		w.must(err)
		w.load(w.maker(), base)
	}
	if _, err := w.store.Reserve(t.Context(), w.request(1)); !errors.Is(err, ErrEpoch) {
		t.Errorf("the lost epoch reserves: %v", err)
	}
	w.tenant.Epoch = nextEpoch
	if _, err := w.store.Reserve(t.Context(), w.request(1)); !errors.Is(err, ErrNotReady) {
		t.Errorf("reserved before it was ready: %v", err)
	}
	b := w.budget()
	if b.Ready || b.JournalOffset != 77 || b.Concurrency != 1 || b.Day != (WindowUse{20260630, 16 * dollar, 6 * dollar, dollar}) ||
		b.Month != (WindowUse{202606, 46 * dollar, 6 * dollar, 2 * dollar}) {
		t.Errorf("%+v", b)
	}
	// 23:58:20: the minute of now at its latest second so far, the one before until 23:58:59, and the hold of just now.
	if b.Minute.Own != 10*dollar || b.Requests != 4 || b.InputTokens != 110 || b.OutputTokens != 220 {
		t.Errorf("minute %+v, %d requests, %d in, %d out", b.Minute, b.Requests, b.InputTokens, b.OutputTokens)
	}
	x, err := w.store.Execution(t.Context(), w.tenant, "x")
	w.must(err)
	if x.Own != 10*dollar || x.Held != 6*dollar || x.External != dollar || x.Calls != 4 || x.Known {
		t.Errorf("execution %+v", x)
	}
	w.next()
	if _, err := w.store.LoadBase(t.Context(), w.tenant.ID, w.maker(), base); !errors.Is(err, ErrReady) {
		t.Errorf("counters in use were made again: %v", err)
	}
	if _, err := w.store.ClearOthers(t.Context(), w.maker(), alive); !errors.Is(err, ErrReady) {
		t.Errorf("counters in use were cleared: %v", err)
	}
	// The same reservation again is the hold that is open; it extends, grows and settles like any other.
	lost.Tenant, ref.Tenant = w.tenant, w.tenant
	if again := w.reserve(lost); again.Verdict != Replayed || !again.Answer.ReservedAt.Equal(ref.ReservedAt) || string(again.Context) != string(lost.Context) {
		t.Errorf("repeat: %+v", again)
	}
	h, err := w.store.Hold(t.Context(), w.tenant, lost.ID)
	w.must(err)
	if h.Held.Nanos != 6*dollar || h.Root != "x" || h.Answer.Day != 20260630 || !h.LeaseUntil.Equal(reply.LeaseUntil) {
		t.Errorf("hold %+v", h)
	}
	ending, err := w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 2 * dollar})
	w.must(err)
	b = w.budget()
	if !ending.Applied || b.Day.Own != 12*dollar || b.Day.Held != 0 || b.Concurrency != 0 {
		t.Errorf("settled: %+v %+v", ending, b)
	}
}

// Goal: a hold becomes pending only before the counters are made, because its end may be applied after that; one that is
// pending is extended in both places, and given back from both.
func TestPendingAfterLoad(t *testing.T) {
	w := newWorld(t)
	kept, late := w.request(dollar), w.request(dollar)
	keptRef, lateRef := w.admit(kept), w.admit(late)
	r := w.receipt(kept, keptRef)
	w.clear()
	_, err := w.store.Pend(t.Context(), r)
	w.must(err)
	w.load(w.maker(), Base{})
	if _, err := w.store.Pend(t.Context(), w.receipt(late, lateRef)); !errors.Is(err, ErrTooLate) {
		t.Errorf("after the load: %v", err)
	}
	other := r
	other.ReservedAt = other.ReservedAt.Add(time.Second)
	if _, err := w.store.Pend(t.Context(), other); !errors.Is(err, ErrConflict) {
		t.Errorf("another hold of the id: %v", err)
	}
	r.Held.Nanos, r.Lease = 3*dollar, time.Hour
	_, err = w.store.Pend(t.Context(), r)
	w.must(err)
	w.tenant.Epoch = nextEpoch
	if b := w.budget(); b.Day.Held != 3*dollar || b.Concurrency != 1 {
		t.Errorf("grown: %+v", b)
	}
	h, err := w.store.Hold(t.Context(), w.tenant, kept.ID)
	w.must(err)
	if want := w.clock.now().Add(time.Hour); !h.LeaseUntil.Equal(want) {
		t.Errorf("lease until %s, want %s", h.LeaseUntil, want)
	}
	w.must(w.store.Unpend(t.Context(), r.Ref))
	if b := w.budget(); b.Day.Own != 0 || b.Concurrency != 0 {
		t.Errorf("given back: %+v", b)
	}
	w.load(w.maker(), Base{})
	if b := w.budget(); b.Day.Own != 0 || b.Concurrency != 0 {
		t.Errorf("it came back: %+v", b)
	}
	w.next()
	if _, err := w.store.Pend(t.Context(), r); !errors.Is(err, ErrTooLate) {
		t.Errorf("after the recovery: %v", err)
	}
	later := r
	later.Tenant.Epoch++
	forgotten := func() bool {
		n, err := w.store.client.Exists(t.Context(), key(w.tenant, "n")).Result()
		w.must(err)
		return n == 0
	}
	w.must(w.store.client.Del(t.Context(), key(w.tenant, "s")).Err()) // the next loss
	_, err = w.store.Pend(t.Context(), later)
	w.must(err)
	w.must(w.store.ForgetPending(t.Context(), w.tenant)) // by a leader that stood still meanwhile
	if forgotten() {
		t.Error("what a later epoch keeps was forgotten")
	}
	w.must(w.store.ForgetPending(t.Context(), later.Tenant))
	if !forgotten() {
		t.Error("not forgotten")
	}
}

// Goal: pending holds are bounded, and those of an earlier recovery are none of this one's.
func TestPendingIsBounded(t *testing.T) {
	w := newWorld(t)
	var receipts []PendRequest
	for range 11 {
		q := w.request(1)
		receipts = append(receipts, w.receipt(q, w.admit(q)))
	}
	w.clear()
	for i, r := range receipts {
		_, err := w.store.Pend(t.Context(), r)
		if (err == nil) != (i < 10) || i == 10 && !errors.Is(err, ErrPending) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	second := Maker{Epoch: nextEpoch + 1, Generation: 11}
	w.load(second, Base{})
	w.tenant.Epoch = second.Epoch
	if b := w.budget(); b.Concurrency != 0 {
		t.Errorf("%+v", b)
	}
}

// Goal: of two that carry a recovery out, the one that took over wins, whatever the other still does.
func TestFence(t *testing.T) {
	w := newWorld(t)
	dead, heir := Maker{nextEpoch, 10}, Maker{nextEpoch, 11}
	w.load(dead, Base{Offset: 1})
	w.load(heir, Base{Offset: 2})
	if _, err := w.store.LoadBase(t.Context(), w.tenant.ID, dead, Base{Offset: 1}); !errors.Is(err, ErrFenced) {
		t.Errorf("load: %v", err)
	}
	if _, err := w.store.ClearOthers(t.Context(), dead, alive); !errors.Is(err, ErrFenced) {
		t.Errorf("clear: %v", err)
	}
	w.tenant.Epoch = nextEpoch
	if b := w.budget(); b.JournalOffset != 2 {
		t.Errorf("%+v", b)
	}
	// Entries of the one that is dead must not hide earlier ones from the heir.
	at := func(offset int64) []JournalEntry {
		return []JournalEntry{{Offset: offset, Kind: Journal, ReservationID: fmt.Sprint("j", offset), ReservedAt: w.clock.now(), Day: 20260630, Actual: admit.Estimate{Nanos: dollar}}}
	}
	if _, err := w.store.Replay(t.Context(), w.tenant.ID, dead, at(9)); !errors.Is(err, ErrFenced) {
		t.Errorf("replay: %v", err)
	}
	changed, err := w.store.Replay(t.Context(), w.tenant.ID, heir, at(5))
	w.must(err)
	if b := w.budget(); changed != 1 || b.Day.Own != dollar || b.JournalOffset != 6 {
		t.Errorf("%d: %+v", changed, b)
	}
	stop := errors.New("stop")
	if _, err := w.store.ClearOthers(t.Context(), heir, func(context.Context) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("asked before each page: %v", err)
	}
	w.next()
	if _, err := w.store.Replay(t.Context(), w.tenant.ID, heir, at(7)); !errors.Is(err, ErrReady) {
		t.Errorf("replayed into counters in use: %v", err)
	}
}

// Goal: what is left of a lost epoch is gone, of every tenant, and a new tenant may take the place of such a leftover.
func TestClearOthers(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		q := w.request(1)
		q.Execution.Root = fmt.Sprint("x", i)
		w.admit(q)
	}
	w.must(w.store.SetEpoch(t.Context(), nextEpoch))
	removed, err := w.store.ClearOthers(t.Context(), w.maker(), alive)
	w.must(err)
	left, err := w.store.client.Keys(t.Context(), "*").Result()
	w.must(err)
	if removed < 51 || !slices.Equal(left, []string{epochKey}) {
		t.Errorf("%d removed, left %v", removed, left)
	}
	_, err = w.store.CreateTenant(t.Context(), w.tenant)
	w.must(err)
	w.tenant.Epoch++
	created, err := w.store.CreateTenant(t.Context(), w.tenant)
	if err != nil || !created {
		t.Errorf("over a leftover: %v, %v", created, err)
	}
	w.tenant.Epoch--
	if _, err = w.store.CreateTenant(t.Context(), w.tenant); !errors.Is(err, ErrEpoch) {
		t.Errorf("over a later epoch's: %v", err)
	}
}

// Goal: a promoted replica and a restarted server are not spoken to; a paused or unreachable one is the same one after.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	server := testkit.RedisServer(t, part.Config{Dir: dir})
	store, err := Open(t.Context(), server.Address+"?read_timeout=1m", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	before, err := store.Inspect(t.Context())
	if err != nil || before.Epoch != 0 || len(before.ReplicationIDs) != 1 || len(before.ReplicationIDs[0]) != 40 {
		t.Fatalf("%+v, %v", before, err)
	}
	store.Allow(before.ReplicationIDs)
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.SetEpoch(t.Context(), 5), store.Seal(t.Context(), "token")); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	testkit.RedisServer(t, part.Config{Dir: dir, Port: port(t, server.Address)})
	if err := store.Ping(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("after a restart: %v", err)
	}
	select {
	case <-store.Replaced():
	default:
		t.Error("nobody was told")
	}
	_, err = store.Reserve(t.Context(), Request{Tenant: Tenant{ID: "a", Epoch: 5}, ID: "r", Lease: time.Minute,
		Limits: admit.Limits{Concurrency: 1}, Calendar: admit.CalendarAt(time.Now(), time.UTC)})
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("a script after a restart: %v", err)
	}
	after, err := store.Inspect(t.Context())
	if err != nil || after.Epoch != 5 || after.Seal != "token" || after.ReplicationIDs[0] == before.ReplicationIDs[0] {
		t.Errorf("%+v, %v", after, err)
	}
	store.Allow(after.ReplicationIDs)
	if err := store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func port(t *testing.T, address string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(address, "redis://127.0.0.1:%d/0", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
