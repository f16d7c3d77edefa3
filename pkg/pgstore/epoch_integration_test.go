//go:build integration

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
)

const partitions = 3

// marks are stand-ins for signed markers: what the store does with them does not depend on their payload.
func marks(epoch int64, phase string) []outbox.Event {
	out := make([]outbox.Event, partitions)
	for i := range out {
		p := int32(i)
		id := fmt.Sprintf("epoch:%d:%s:%d", epoch, phase, i)
		out[i] = outbox.Event{ID: id, AggregateType: "epoch", AggregateID: id, Type: "weir.epoch.v1", Payload: []byte("{}"), Partition: &p}
	}
	return out
}

func (f fixture) epochRow() pgstore.RedisEpoch {
	f.t.Helper()
	e, ok, err := f.EpochRow(f.t.Context())
	f.must(err)
	if !ok {
		f.t.Fatal("no epoch")
	}
	return e
}

func (f fixture) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.address)
	f.must(err)
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) })
	return conn
}

// raise takes a lost epoch's place; where ends in flight have kept it waiting for 2 s it is repeated, as its callers do.
func (f fixture) raise(ctx context.Context, lost int64) (raised bool, err error) {
	for tries := 0; tries == 0 || err != nil && strings.Contains(err.Error(), "lock timeout") && tries < 30; tries++ {
		raised, err = f.RaiseEpoch(ctx, lost, lost+1, 1, marks(lost+1, "raised"))
	}
	return raised, err
}

// Goal: of many that see the loss one raises, with one set of markers; nobody raises an epoch that is not the lost one.
func TestOneRaises(t *testing.T) {
	f := open(t)
	for round := range int64(5) {
		lost := 7 + round
		var wins atomic.Int32
		var start, done sync.WaitGroup
		start.Add(1)
		for range 8 {
			done.Go(func() {
				start.Wait()
				raised, err := f.raise(t.Context(), lost)
				if err != nil {
					t.Error(err)
				}
				if raised {
					wins.Add(1)
				}
			})
		}
		start.Done()
		done.Wait()
		if e := f.epochRow(); wins.Load() != 1 || e.Epoch != lost+1 || !e.Recovering || e.Lost != lost || e.RaisedAt.IsZero() {
			t.Fatalf("round %d: %d won, %+v", round, wins.Load(), e)
		}
	}
	if ids := f.events(); len(ids) != 5*partitions || ids[0] != "epoch:8:raised:0" || ids[len(ids)-1] != "epoch:12:raised:2" {
		t.Errorf("markers %v", ids)
	}
	if _, err := f.RaiseEpoch(t.Context(), 12, 11, 1, nil); err == nil {
		t.Error("an epoch was lowered")
	}
}

// Goal: what a recovery does to the row, step by step, each step once however often it is repeated.
func TestRecoveryOfTheRow(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	if ok, err := f.SetReplicationIDs(ctx, 7, nil, []string{"a", "b"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := f.SetReplicationIDs(ctx, 7, nil, []string{"c"}); ok || err != nil {
		t.Errorf("ids were replaced unseen: %v, %v", ok, err)
	}
	if _, err := f.AddBarrier(ctx, 7, marks(7, "barrier")); !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("a barrier without a recovery: %v", err)
	}
	_, err := f.RaiseEpoch(ctx, 7, 8, 1, marks(8, "raised"))
	f.must(err)
	e := f.epochRow()
	if len(e.ReplicationIDs) != 0 || e.LastLease().After(e.RaisedAt) || e.LastLease().IsZero() || e.Now.Before(e.RaisedAt) {
		t.Errorf("%+v", e)
	}
	if err := f.reopen(8, []string{"x"}); !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("finished without a barrier: %v", err)
	}
	if ok, err := f.SetReplicationIDs(ctx, 8, nil, []string{"x"}); ok || err != nil {
		t.Errorf("ids while recovering: %v, %v", ok, err)
	}
	for try := range 3 {
		if added, err := f.AddBarrier(ctx, 8, marks(8, "barrier")); added != (try == 0) || err != nil {
			t.Errorf("barrier, try %d: %v, %v", try, added, err)
		}
	}
	f.must(f.reopen(8, []string{"x"}))
	if err := f.reopen(8, []string{"y"}); !errors.Is(err, pgstore.ErrEpochRaised) { // and nothing is changed
		t.Errorf("finished twice: %v", err)
	}
	if e = f.epochRow(); e.Recovering || !slices.Equal(e.ReplicationIDs, []string{"x"}) || e.RecoveredAt.IsZero() || e.BarrierAt.IsZero() {
		t.Errorf("%+v", e)
	}
	if added, err := f.AddBarrier(ctx, 8, marks(8, "barrier")); added || err != nil {
		t.Errorf("barrier again, after the end: %v, %v", added, err)
	}
	if err := f.reopen(7, nil); !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("a lost epoch's recovery ended: %v", err)
	}
	if ids := f.events(); len(ids) != 2*partitions {
		t.Errorf("markers %v", ids)
	}
}

// Goal: only the epoch in force, and only when it is ready, takes an amount that the settle script applies.
func TestEndsOfALostEpoch(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	end := func(id string, epoch int64, mode pgstore.OwnMode, want error) {
		t.Helper()
		r := row(id, pgstore.Settled)
		r.Epoch, r.OwnMode = epoch, mode
		if _, _, err := f.End(ctx, r, event(r.EventID)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
		if _, ok, err := f.Get(ctx, "acme", id); ok != (want == nil) || err != nil {
			t.Errorf("%s: stored %v, %v", id, ok, err)
		}
	}
	end("direct", 7, pgstore.OwnDirect, nil)
	_, err := f.RaiseEpoch(ctx, 7, 8, 1, nil)
	f.must(err)
	end("old-direct", 7, pgstore.OwnDirect, pgstore.ErrEpochRaised)
	end("early-direct", 8, pgstore.OwnDirect, pgstore.ErrEpochRaised) // recovering: no script applies anything
	end("old-journal", 7, pgstore.OwnJournal, nil)
	late := row("direct", pgstore.Settled)
	late.Estimated = true
	if _, _, err := f.AddLate(ctx, late, pgstore.Late{EventID: "l"}, *event("l")); err != nil {
		t.Errorf("a late figure of a lost epoch: %v", err)
	}
	_, err = f.AddBarrier(ctx, 8, nil)
	f.must(err)
	f.must(f.reopen(8, nil))
	end("still-old-direct", 7, pgstore.OwnDirect, pgstore.ErrEpochRaised)
	end("new-direct", 8, pgstore.OwnDirect, nil)
}

// Goal: an end in flight holds the raise up, a raise in flight holds ends up, and the lock is waited for, but not for ever.
func TestEndInFlightWhileRaising(t *testing.T) {
	f := open(t)
	settle := f.connect()
	tx, err := settle.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared($1)", pgstore.EpochLock)
	f.must(err)
	if raised, err := f.RaiseEpoch(t.Context(), 7, 8, 1, marks(8, "raised")); raised || err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Fatalf("raised past an end in flight: %v, %v", raised, err)
	}
	watch := f.connect() // before the raise, which waits for 2 s only
	done := make(chan error, 1)
	go func() {
		_, err := f.RaiseEpoch(t.Context(), 7, 8, 1, marks(8, "raised"))
		done <- err
	}()
	f.waitForLock(watch)
	after := make(chan error, 1)
	go func() { // comes while the raise waits: it must see the new epoch
		r := row("r2", pgstore.Settled)
		_, _, err := f.End(t.Context(), r, event(r.EventID))
		after <- err
	}()
	f.must(outbox.Append(t.Context(), tx, *event("in-flight")))
	f.must(tx.Commit(t.Context()))
	f.must(<-done)
	if err := <-after; !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("the end after it: %v", err)
	}
	if ids := f.events(); fmt.Sprint(ids) != "[in-flight epoch:8:raised:0 epoch:8:raised:1 epoch:8:raised:2]" {
		t.Errorf("order %v", ids)
	}
}

// Goal: a process that was stopped in the midst of an end holds a raise up for seconds, not for ever.
func TestRaisePastAStoppedProcess(t *testing.T) {
	f := open(t)
	stopped := f.connect() // without our time-outs, as in the midst of a batch
	begin, raised := time.Now(), false
	tx, err := stopped.Begin(t.Context())
	f.must(err)
	f.must(outbox.Append(t.Context(), tx, *event("never")))
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared($1)", pgstore.EpochLock)
	f.must(err)
	for tries := 0; !raised; tries++ {
		if raised, err = f.RaiseEpoch(t.Context(), 7, 8, 1, marks(8, "raised")); err != nil && tries > 10 {
			t.Fatal(err)
		}
	}
	if waited := time.Since(begin); waited < 4*time.Second {
		t.Errorf("an end was cut off after %s", waited)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the stopped end was committed behind the marker")
	}
	if ids := f.events(); len(ids) != partitions {
		t.Errorf("%v", ids)
	}
}

// waitForLock returns once somebody waits for EpochLock.
func (f fixture) waitForLock(conn *pgx.Conn) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for waiting := false; !waiting; {
		f.must(conn.QueryRow(f.t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waiting))
		if time.Now().After(deadline) {
			f.t.Fatal("nobody waits for the lock")
		}
	}
}

// Goal: as the relay publishes them, ends that counted in the lost epoch stand before the marker and all others after it,
// with many writers, two raisers, and a relay that reads along in small batches; over and over.
func TestMarkersStandBetweenEpochs(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	const rounds, writers, ends = 6, 8, 15
	var published []string
	stop := make(chan struct{})
	var relay sync.WaitGroup
	relay.Go(func() { published = f.relay(ctx, stop) })
	for round := range int64(rounds) {
		lost := 7 + round
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				for i := range ends {
					f.endOnce(ctx, fmt.Sprintf("%d-%d-%d", round, w, i), lost)
				}
			})
		}
		for range 2 {
			work.Go(func() {
				if _, err := f.raise(ctx, lost); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		_, err := f.AddBarrier(ctx, lost+1, marks(lost+1, "barrier"))
		f.must(err)
		f.must(f.reopen(lost+1, nil))
	}
	close(stop)
	relay.Wait()
	if want := rounds * (writers*ends + 2*partitions); len(published) != want {
		t.Fatalf("%d events published, want %d", len(published), want)
	}
	checkEpochs(t, published)
}

// endOnce settles a hold of the epoch as admission does: by the script if that epoch is in force, else by the journal.
func (f fixture) endOnce(ctx context.Context, id string, epoch int64) {
	r := row(id, pgstore.Settled)
	r.Epoch, r.EventID = epoch, fmt.Sprintf("direct:%d:%s", epoch, id)
	_, _, err := f.End(ctx, r, event(r.EventID))
	if errors.Is(err, pgstore.ErrEpochRaised) {
		r.OwnMode, r.EventID = pgstore.OwnJournal, fmt.Sprintf("journal:%d:%s", epoch, id)
		_, _, err = f.End(ctx, r, event(r.EventID))
	}
	if err != nil {
		f.t.Error(err)
	}
}

// relay returns the ids in the order of publication; it ends when all is published after stop was closed.
func (f fixture) relay(ctx context.Context, stop <-chan struct{}) (ids []string) {
	s, err := outbox.Open(ctx, f.address)
	if err == nil {
		defer s.Close(ctx) //nolint:errcheck // the test is over
		_, err = s.TryLead(ctx)
	}
	for last := false; err == nil; {
		select {
		case <-stop:
			last = true
		default:
		}
		var b outbox.Batch
		if b, err = s.Next(ctx, outbox.Limits{Rows: 7, Bytes: 1 << 20}); err != nil {
			break
		}
		if len(b.Rows) == 0 && last {
			return ids
		}
		for _, r := range b.Rows {
			ids = append(ids, r.ID)
		}
		if len(b.Rows) > 0 {
			err = s.Advance(ctx, b, nil)
		}
	}
	f.t.Error(err)
	return ids
}

// checkEpochs walks the publications: which epoch is in force, and what may stand there.
func checkEpochs(t *testing.T, published []string) {
	t.Helper()
	epoch, seen := int64(7), map[string]bool{}
	for at, id := range published {
		var of int64
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
		switch kind, rest, _ := strings.Cut(id, ":"); kind {
		case "epoch":
			var phase string
			_, _ = fmt.Sscanf(strings.ReplaceAll(rest, ":", " "), "%d %s", &of, &phase)
			if phase == "raised" {
				epoch = of
			}
			if of != epoch {
				t.Errorf("%d: marker %s in epoch %d", at, id, epoch)
			}
		case "direct":
			if _, _ = fmt.Sscanf(rest, "%d:", &of); of != epoch {
				t.Errorf("%d: %s stands in epoch %d", at, id, epoch)
			}
		case "journal":
			if _, _ = fmt.Sscanf(rest, "%d:", &of); of >= epoch {
				t.Errorf("%d: %s stands before the marker that ended its epoch", at, id)
			}
		}
	}
}

// Goal: one leads; the lead goes to another when its holder's connection ends.
func TestLead(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	first, err := f.TryLead(ctx)
	f.must(err)
	if second, err := f.TryLead(ctx); second != nil || err != nil {
		t.Fatalf("two lead: %v, %v", second, err)
	}
	f.must(first.Check(ctx))
	if _, err := f.connect().Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	var second *pgstore.Lead
	for deadline := time.Now().Add(patience); second == nil; {
		if second, err = f.TryLead(ctx); err != nil || time.Now().After(deadline) {
			t.Fatal("nobody leads", err)
		}
	}
	if first.Check(ctx) == nil {
		t.Error("the first still believes that it leads")
	}
	f.must(second.Close(ctx))
}

// Goal: a seal holds until somebody may have written, and is used once.
func TestSeal(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	seal := func(epoch int64, token string, want bool) {
		t.Helper()
		if ok, err := f.Seal(ctx, epoch, token); ok != want || err != nil {
			t.Errorf("seal %d: %v, %v", epoch, ok, err)
		}
	}
	unseal := func(epoch int64, token string, want bool) {
		t.Helper()
		if ok, err := f.Unseal(ctx, epoch, token, []string{"new"}); ok != want || err != nil {
			t.Errorf("unseal %d with %s: %v, %v", epoch, token, ok, err)
		}
	}
	seal(6, "x", false)
	seal(7, "x", true)
	unseal(7, "y", false)
	unseal(6, "x", false)
	unseal(7, "x", true)
	unseal(7, "x", false)
	if e := f.epochRow(); e.Seal != "" || !slices.Equal(e.ReplicationIDs, []string{"new"}) {
		t.Errorf("%+v", e)
	}
	seal(7, "z", true)
	if e, _, err := f.TouchEpoch(ctx); e.Seal != "" || err != nil {
		t.Errorf("a seal outlived a replica that admits: %+v, %v", e, err)
	}
	unseal(7, "z", false)
	seal(7, "z", true)
	_, err := f.RaiseEpoch(ctx, 7, 8, 1, nil)
	f.must(err)
	unseal(8, "z", false)
	seal(8, "z", false)
}

// Goal: ActiveAt is written at most once a second over all replicas, and never lags further behind. All by Postgres' clock: ours
// may stand still between two statements.
func TestTouch(t *testing.T) {
	f := open(t)
	last := f.epochRow().ActiveAt
	for writes := 0; writes < 2; {
		before := f.epochRow().Now
		e, ok, err := f.TouchEpoch(t.Context())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if e.ActiveAt.Before(before.Add(-time.Second)) {
			t.Fatalf("active at %s, touched after %s", e.ActiveAt, before)
		}
		if e.ActiveAt.Equal(last) {
			continue
		}
		if e.ActiveAt.Sub(last) < time.Second {
			t.Errorf("written at %s and again at %s", last, e.ActiveAt)
		}
		writes, last = writes+1, e.ActiveAt
	}
	if _, ok, err := openNew(t).TouchEpoch(t.Context()); ok || err != nil {
		t.Errorf("no epoch: %v, %v", ok, err)
	}
}
