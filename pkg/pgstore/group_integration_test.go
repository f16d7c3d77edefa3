//go:build integration

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/pgstore"
)

// told are how often each event is in the outbox, and whether a row names it.
func (f fixture) told() (events map[string]int, rows map[string]pgstore.Outcome) {
	f.t.Helper()
	events, rows = map[string]int{}, map[string]pgstore.Outcome{}
	for _, id := range f.events() {
		events[id]++
	}
	found, err := f.connect().Query(f.t.Context(), `SELECT event_id, outcome FROM reservations WHERE event_id <> ''
		UNION ALL SELECT late_event_id, 'late' FROM reservations WHERE late_event_id IS NOT NULL`)
	f.must(err)
	var id, outcome string
	_, err = pgx.ForEachRow(found, []any{&id, &outcome}, func() error {
		rows[id] = pgstore.Outcome(outcome)
		return nil
	})
	f.must(err)
	return events, rows
}

// exact checks that every row has its event, once, that there is no other event, and that what was answered is there.
func (f fixture) exact(answered []string) {
	f.t.Helper()
	events, rows := f.told()
	for id, n := range events {
		if _, ok := rows[id]; !ok || n != 1 {
			f.t.Errorf("event %s is there %d times, its row: %v", id, n, ok)
		}
	}
	for id := range rows {
		if events[id] == 0 {
			f.t.Errorf("the event of %s is missing", id)
		}
	}
	for _, id := range answered {
		if events[id] != 1 {
			f.t.Errorf("%s was answered and is there %d times", id, events[id])
		}
	}
}

// Goal: ends, late figures and settles of external ends of a few reservations, all at once and in every mix, end as if
// they had come one by one: an end, at most one late figure, and the events of exactly those.
func TestMixedBatches(t *testing.T) {
	f := open(t)
	const reservations, callers, each = 12, 16, 40
	var answered sync.Map
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 1))
			for n := range each {
				id, name := fmt.Sprint("r", random.IntN(reservations)), fmt.Sprint(caller, "-", n)
				r := row(id, pgstore.Settled)
				r.EventID, r.Estimated = name, random.IntN(3) == 0
				var done bool
				var err error
				switch random.IntN(5) {
				case 0:
					_, done, err = f.End(t.Context(), r, event(name))
				case 1:
					_, _, err = f.End(t.Context(), row(id, []pgstore.Outcome{pgstore.Released, pgstore.External}[n%2]), nil) // it has no event
				case 2:
					r = row(id, pgstore.Expired)
					r.EventID = name
					_, done, err = f.End(t.Context(), r, event(name))
				case 3:
					_, done, err = f.AddLate(t.Context(), row(id, pgstore.Settled), pgstore.Late{EventID: name}, *event(name))
				default:
					_, done, err = f.SettleExternal(t.Context(), r, *event(name))
				}
				if err != nil && !errors.Is(err, pgstore.ErrNoRow) {
					t.Errorf("%s: %v", id, err)
				}
				if done {
					answered.Store(name, true)
				}
			}
		})
	}
	group.Wait()
	var names []string
	answered.Range(func(k, _ any) bool { names = append(names, k.(string)); return true })
	f.exact(names)
	if events, _ := f.told(); len(events) != len(names) {
		t.Errorf("%d events for %d answers", len(events), len(names))
	}
}

// Goal: connections that die in the middle of transactions lose nothing that was answered and leave nothing half.
func TestKilledConnections(t *testing.T) {
	f := open(t)
	killer := f.connect()
	ctx, stop := context.WithCancel(t.Context())
	var killed atomic.Int64
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		for ctx.Err() == nil && killed.Load() < 50 {
			var n int64
			err := killer.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`).Scan(&n)
			if err == nil {
				killed.Add(n)
			}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Millisecond):
			}
		}
	}()
	var mu sync.Mutex
	var answered []string
	failed := 0
	var group sync.WaitGroup
	for caller := range 16 {
		group.Go(func() {
			for n := 0; n < 100 || killed.Load() == 0 && n < 100_000; n++ {
				r := row(fmt.Sprint(caller, "-", n), pgstore.Settled)
				stored, done, err := f.End(t.Context(), r, event(r.EventID))
				mu.Lock()
				if err != nil {
					failed++
				} else {
					answered = append(answered, stored.EventID)
					if stored.EventID != r.EventID { // done or not, nobody else ends it
						t.Errorf("%s: %v, %+v", r.EventID, done, stored)
					}
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	stop()
	<-dead
	f.exact(answered)
	if killed.Load() == 0 || len(answered) < failed {
		t.Errorf("%d connections were killed, %d ends answered, %d failed", killed.Load(), len(answered), failed)
	}
}

// Goal: a row that Postgres refuses fails alone, whatever shares its transaction.
func TestBadRowFailsAlone(t *testing.T) {
	f := open(t)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			r := row(fmt.Sprint(i), pgstore.Settled)
			if i%8 == 0 {
				r.HeldNanos = money.Nano(1 << 53)
			}
			_, done, err := f.End(t.Context(), r, event(r.EventID))
			if good := i%8 != 0; done != good || (err == nil) != good {
				t.Errorf("%d: %v, %v", i, done, err)
			}
		})
	}
	group.Wait()
	if n := len(f.events()); n != 56 {
		t.Errorf("%d events", n)
	}
	for outcome, id := range map[pgstore.Outcome]string{pgstore.Settled: "", pgstore.Expired: "", pgstore.Released: "e", pgstore.External: "e"} {
		r := row("half", outcome)
		if r.EventID = id; id != "" {
			_, _, err := f.End(t.Context(), r, event(id))
			if err == nil {
				t.Errorf("%s with an event was taken", outcome)
			}
		} else if _, _, err := f.End(t.Context(), r, nil); err == nil {
			t.Errorf("%s without an event was taken", outcome)
		}
	}
	bad := *event("e")
	bad.AggregateID = ""
	if _, _, err := f.End(t.Context(), row("no-key", pgstore.Settled), &bad); err == nil {
		t.Error("an event without a key was taken")
	}
}

// Goal: an amount that a script must apply needs the epoch of now; every other end is taken in any epoch.
func TestEndsOfAnotherEpoch(t *testing.T) {
	f := open(t)
	_, err := f.RaiseEpoch(t.Context(), 7, 8, 1, nil)
	f.must(err)
	direct := row("direct", pgstore.Settled)
	if _, done, err := f.End(t.Context(), direct, event("d")); done || !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("direct, of the old epoch: %v, %v", done, err)
	}
	direct.Epoch = 8
	if _, done, err := f.End(t.Context(), direct, event("d")); done || !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("direct, while the epoch is being recovered: %v, %v", done, err)
	}
	direct.Epoch = 0
	if _, done, err := f.End(t.Context(), direct, event("d")); done || !errors.Is(err, pgstore.ErrEpochRaised) {
		t.Errorf("direct, of no epoch: %v, %v", done, err)
	}
	if ids := f.events(); len(ids) != 0 {
		t.Errorf("events %v", ids)
	}
	direct.Epoch, direct.OwnMode = 7, pgstore.OwnJournal
	if _, done, err := f.End(t.Context(), direct, event("j")); !done || err != nil {
		t.Errorf("journal: %v, %v", done, err)
	}
	released := row("released", pgstore.Released)
	if _, done, err := f.End(t.Context(), released, nil); !done || err != nil {
		t.Errorf("release: %v, %v", done, err)
	}
	late := pgstore.Late{EventID: "late", Fingerprint: []byte("l"), Answer: []byte("{}")}
	released.OwnMode = pgstore.OwnDirect // as no row is; it must not matter
	if _, done, err := f.AddLate(t.Context(), released, late, *event("late")); !done || err != nil {
		t.Errorf("late: %v, %v", done, err)
	}
	f.must(f.finish(8))
	direct = row("direct2", pgstore.Settled)
	direct.Epoch = 8
	if _, done, err := f.End(t.Context(), direct, event("d2")); !done || err != nil {
		t.Errorf("direct, of the new epoch: %v, %v", done, err)
	}
	if ids := f.events(); !slices.Equal(ids, []string{"j", "late", "d2"}) {
		t.Errorf("events %v", ids)
	}
}

// Goal: an end of what has ended, or of another epoch, fails none of those that share its transaction, and events are those
// of the ends that were made; both where such an end is met unawares and where it is expected.
func TestEndsThatMeetEnds(t *testing.T) {
	f := open(t)
	for i := range 8 {
		_, done, err := f.End(t.Context(), row(fmt.Sprint(i*4), pgstore.Settled), event(fmt.Sprint("first", i)))
		if !done || err != nil {
			t.Fatal(done, err)
		}
	}
	for round := range 3 {
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				r := row(fmt.Sprint(i), pgstore.Settled)
				if i%4 != 0 {
					r.ReservationID = fmt.Sprint(i, "-", round)
				}
				if i%4 == 1 {
					r.Epoch = 6
				}
				_, done, err := f.End(t.Context(), r, event(fmt.Sprint("e", i, "-", round)))
				if done != (i%4 > 1) || errors.Is(err, pgstore.ErrEpochRaised) != (i%4 == 1) || err != nil && i%4 != 1 {
					t.Errorf("%d: %v, %v", i, done, err)
				}
			})
		}
		group.Wait()
	}
	if n := len(f.events()); n != 8+3*16 {
		t.Errorf("%d events", n)
	}
}

func (f fixture) finish(epoch int64) error {
	if _, err := f.AddBarrier(f.t.Context(), epoch, nil); err != nil {
		return err
	}
	return f.reopen(epoch, []string{"id"})
}

// Goal: an end that meets a marker is wholly before it or wholly after it: no event of the old epoch follows the marker.
func TestEndsAndMarker(t *testing.T) {
	f := open(t)
	var group sync.WaitGroup
	begun := make(chan struct{}, 1)
	for caller := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				r := row(fmt.Sprint(caller, "-", n), pgstore.Settled)
				_, _, err := f.End(t.Context(), r, event(r.EventID))
				if errors.Is(err, pgstore.ErrEpochRaised) {
					return
				}
				if err != nil || n > 1_000_000 {
					t.Error(err)
					return
				}
				if n == 20 {
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	<-begun
	raised, err := f.raise(t.Context(), 7)
	if err != nil || !raised {
		t.Errorf("%v, %v", raised, err)
	}
	group.Wait()
	if ids := f.events(); ids[len(ids)-1] != "epoch:8:raised:2" {
		t.Errorf("%s came after the markers", ids[len(ids)-1])
	}
}

// Goal: what waits when the store is closed is written first.
func TestCloseWritesWhatWaits(t *testing.T) {
	f := open(t)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			r := row(fmt.Sprint(i), pgstore.Settled)
			if _, done, err := f.End(t.Context(), r, event(r.EventID)); done == (err != nil) {
				t.Errorf("%d: %v, %v", i, done, err)
			}
		})
	}
	f.Store.Close()
	group.Wait()
	f.exact(nil)
}
