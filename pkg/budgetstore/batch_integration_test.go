//go:build integration

package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// A batch decides each reservation as Reserve would, in order, over tenants, whatever becomes of the others; also when
// Redis has forgotten the script.
func TestReserveBatch(t *testing.T) {
	w := newWorld(t)
	other := *w
	other.tenant.ID += "-other"
	_, err := w.store.CreateTenant(t.Context(), other.tenant)
	w.must(err)
	w.must(w.store.MarkReady(t.Context(), other.tenant))
	w.limits.Minute = admit.Hard(10)
	w.must(w.store.client.ScriptFlush(t.Context()).Err())

	list := []Request{w.request(4), other.request(100), w.request(0), w.request(4), w.request(4), w.request(2)}
	list[2].Lease = 0
	lost := w.request(1)
	lost.Tenant.ID += "-unknown"
	again := list[0]
	conflict := list[0]
	conflict.Fingerprint[0]++
	list = append(list, lost, again, conflict)
	results := w.store.ReserveBatch(t.Context(), list)
	verdicts := []Verdict{Admitted, Admitted, 0, Admitted, Refused, Admitted, 0, Replayed, Conflict}
	errs := map[int]error{2: admit.ErrInvalid, 6: ErrLost}
	for i, got := range results {
		if !errors.Is(got.Err, errs[i]) || got.Reply.Verdict != verdicts[i] {
			t.Errorf("%d: %+v %v, want verdict %d, %v", i, got.Reply, got.Err, verdicts[i], errs[i])
		}
	}
	if results[7].Reply.Answer != results[0].Reply.Answer {
		t.Errorf("replayed in the same batch: %+v, first %+v", results[7].Reply.Answer, results[0].Reply.Answer)
	}
	if b := w.budget(); b.Minute.Own != 10 || b.Concurrency != 3 {
		t.Errorf("budget %+v", b)
	}
	if len(w.store.ReserveBatch(t.Context(), nil)) != 0 {
		t.Error("results of nothing")
	}
}

// More than one round trip's worth, and a Redis that does not answer: each has its error within the deadline.
func TestReserveBatchBounds(t *testing.T) {
	w := newWorld(t)
	w.limits.Concurrency = 2000
	var list []Request
	for range maxBatch + 10 {
		list = append(list, w.request(1))
	}
	for i, got := range w.store.ReserveBatch(t.Context(), list) {
		if got.Err != nil || got.Reply.Verdict != Admitted {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	if b := w.budget(); b.Day.Own != maxBatch+10 {
		t.Fatalf("%+v", b)
	}
	w.must(w.store.client.Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "ALL").Err())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for i, got := range w.store.ReserveBatch(ctx, []Request{w.request(1), w.request(1)}) {
		if !errors.Is(got.Err, ErrUnavailable) {
			t.Fatalf("%d while paused: %+v", i, got)
		}
	}
}

// Calls that share a round trip get their own answers, and one whose context has ended does not wait for the others.
func TestConcurrentCalls(t *testing.T) {
	w := newWorld(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var wg sync.WaitGroup
	for i := range 200 {
		r := w.request(1)
		r.Execution.Root = fmt.Sprint("root-", i)
		wg.Go(func() {
			ctx := t.Context()
			if i%10 == 0 {
				ctx = gone
			}
			reply, err := w.store.Reserve(ctx, r)
			switch {
			case i%10 == 0 && err != nil && !errors.Is(err, ErrUnavailable), i%10 != 0 && err != nil:
				t.Errorf("%s: %v", r.ID, err)
			case i%10 != 0 && (reply.Verdict != Admitted || reply.Answer.Execution.Calls != 1):
				t.Errorf("%s: %+v", r.ID, reply)
			}
		})
	}
	wg.Wait()
}
