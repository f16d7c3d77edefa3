//go:build integration

package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: holds whose owners say nothing from the loss of Redis to the end of the recovery count all the same, so that what
// is settled and held never passes a hard ceiling. Method: two replicas under load that would take whatever is free; owners
// that settle in full once others were admitted; holds that another replica extended, settled or released, each of which
// must count as that says, and once.
func TestSilentOwnersAreShown(t *testing.T) {
	t.Parallel()
	const ceiling, silent, each = 200, 12, 10 // cents
	k := contract()
	k.Ceilings.Day = ceiling * dollar / 100
	w := newWorld(t, map[string]tenant.Contract{"acme": k})
	w.pipeline()
	a, b := w.start(), w.start()
	receipts := map[string]any{}
	reserve := func(r *replica, id string) {
		status, out := r.reserve("acme", id, each)
		w.want(id, status, out, 201)
		receipts[id] = out["receipt"]
	}
	for n := range silent {
		reserve([]*replica{a, b}[n%2], fmt.Sprint("silent", n))
	}
	status, out, _ := b.do("POST", "/v1/reservations/silent0/extend", w.keys["acme"], object{"lease_seconds": 60})
	w.want("extended elsewhere", status, out, 200)
	reserve(a, "settled")
	status, out = b.settle("acme", "settled", object{"meters": object{"output_tokens": 7}})
	w.want("settled elsewhere", status, out, 200)
	reserve(a, "released")
	if a.svc.holds.Len() != silent/2+2 || b.svc.holds.Len() != silent/2+1 {
		t.Fatalf("%d and %d holds are remembered", a.svc.holds.Len(), b.svc.holds.Len())
	}

	w.lost()
	status, out, _ = b.do("POST", "/v1/reservations/released/release", w.keys["acme"], object{"receipt": receipts["released"]})
	w.want("released elsewhere, meanwhile", status, out, 200)
	load, stop := context.WithCancel(t.Context())
	defer stop()
	var taken atomic.Int64
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() {
			for i := 0; load.Err() == nil; i++ {
				id := fmt.Sprintf("load-%d-%d", n, i)
				if status, _ := []*replica{a, b}[n%2].reserve("acme", id, each); status == 201 {
					taken.Add(each)
				}
				pause(load, 20*time.Millisecond)
			}
		})
	}
	w.eventually("both have shown their holds", func() error {
		if n := w.count("SELECT count(*) FROM admission_replicas WHERE shown < (SELECT epoch FROM redis_epoch)"); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
	w.eventually("the ceiling is reached", func() error {
		w.leasesEnd()
		status, out := a.reserve("acme", fmt.Sprint("over", time.Now().UnixNano()), each)
		if status == 201 {
			taken.Add(each)
		}
		if status != 429 {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	stop()
	callers.Wait()
	if got := taken.Load() + silent*each + 7; got > ceiling || got+each <= ceiling {
		t.Errorf("%d cents may be spent, of %d", got, ceiling)
	}
	for n := range silent {
		id := fmt.Sprint("silent", n)
		status, out = a.settle("acme", id, object{"meters": object{"output_tokens": each}, "receipt": receipts[id]})
		w.want(id, status, out, 200)
	}
	w.eventually("what was admitted counts, and no more", func() error {
		day := a.budget("acme")
		own, external := centsOf(figureOf(day, "day", "own_usd")), centsOf(figureOf(day, "day", "external_usd"))
		if got, want := own+external, taken.Load()+silent*each+7; got != want {
			return fmt.Errorf("%d cents are settled and held, of %d admitted", got, want)
		}
		return nil
	})
	w.eventually("nothing stays remembered that has ended", func() error { // but for what the other replica ended
		for _, r := range []*replica{a, b} {
			r.svc.holds.Sweep(time.Now().Add(time.Hour))
			if n := r.svc.holds.Len(); n > 0 {
				return fmt.Errorf("%d", n)
			}
		}
		return nil
	})
}

// Goal: the leader waits for a replica that is there and has not shown its holds, but not for ever, and not for one that is
// gone.
func TestLeaderWaitsForReplicas(t *testing.T) {
	t.Parallel()
	w, r := newLossWorld(t)
	w.peersLast()
	status, out := r.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	there, gone := pgstore.Replica{ID: "another", LeaseReach: time.Second}, make(chan struct{})
	w.must(r.svc.rows.Report(t.Context(), there))
	reporting, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(gone)
		for reporting.Err() == nil {
			_ = r.svc.rows.Report(reporting, there)
			pause(reporting, 200*time.Millisecond)
		}
	}()
	w.lost()
	w.eventually("it waits longer than for the leases", func() error {
		w.leasesEnd()
		row := w.epochNow()
		if !row.Recovering || !row.BarrierAt.IsZero() {
			t.Fatalf("it does not wait: %+v", row)
		}
		if over := row.Now.Sub(r.svc.epochs.LeasesEnd(row)); over < time.Second {
			return fmt.Errorf("%s", over)
		}
		return nil
	})
	stop()
	<-gone
	w.noPeers()
	w.recovers(r, "acme", "after")
}
