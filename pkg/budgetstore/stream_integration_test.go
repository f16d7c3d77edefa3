//go:build integration

package budgetstore

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// Calls that share a round trip each get their own answer, reservations of a tenant as if one came after the other. Where
// Redis has forgotten the scripts, each is told, and the next ones go together again.
func TestStreamSend(t *testing.T) {
	w := newWorld(t)
	other := *w
	other.tenant.ID += "-other"
	_, err := w.store.CreateTenant(t.Context(), other.tenant)
	w.must(err)
	w.must(w.store.MarkReady(t.Context(), other.tenant))
	w.limits.Minute = admit.Hard(10)
	requests := []Request{w.request(4), other.request(100), w.request(5), w.request(4), w.request(1)}
	round := func() (replies []Reply, errs []error, plain *redis.SliceCmd) {
		t.Helper()
		plain = redis.NewSliceCmd(t.Context(), "hmget", key(w.tenant, "s"), "{n")
		calls := []*sharedCall{{cmd: plain}}
		for _, r := range requests {
			keys, args := w.store.reserveCall(&r)
			calls = append(calls, w.store.reservation(&r, keys, args))
		}
		w.send(calls)
		for i, r := range requests {
			reply, err := r.reply(text(calls[i+1].result()))
			replies, errs = append(replies, reply), append(errs, err)
		}
		return replies, errs, plain
	}
	w.must(w.store.client.ScriptFlush(t.Context()).Err())
	_, errs, _ := round()
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "NOSCRIPT") {
			t.Errorf("call %d without scripts: %v", i, err)
		}
	}
	w.must(w.store.scripts.reserve.Load(t.Context(), w.store.client).Err())
	replies, errs, plain := round()
	for i, want := range []Verdict{Admitted, Admitted, Admitted, Refused, Admitted} {
		if errs[i] != nil || replies[i].Verdict != want {
			t.Errorf("call %d: %v, %v", i, replies[i], errs[i])
		}
		if want == Admitted && replies[i].Answer.Reserved != requests[i].Estimate {
			t.Errorf("call %d reserved %v", i, replies[i].Answer.Reserved)
		}
	}
	if len(plain.Val()) != 1 || len(plain.Val()[0].(string)) != nowSize {
		t.Errorf("plain: %v, %v", plain.Val(), plain.Err())
	}
}

// send sends calls in one round trip, and returns when each has its answer.
func (w *world) send(calls []*sharedCall) {
	for _, c := range calls {
		c.done = make(chan struct{})
	}
	w.store.shared.list[0].send(calls)
	for _, c := range calls {
		<-c.done
	}
}

// Many at once are admitted up to the ceiling, whichever went together, each for its own amount.
func TestReserveAtOnce(t *testing.T) {
	w := newWorld(t)
	const callers, ceiling = 60, 600
	w.limits.Minute = admit.Hard(ceiling)
	w.must(w.store.client.ScriptFlush(t.Context()).Err())
	var requests []Request
	for i := range callers {
		requests = append(requests, w.request(money.Nano(i%20+1)))
	}
	var admitted, sum atomic.Int64
	var group sync.WaitGroup
	for _, r := range requests {
		group.Go(func() {
			reply, err := w.store.Reserve(t.Context(), r)
			if err != nil || reply.Verdict == Admitted && reply.Answer.Reserved != r.Estimate || reply.Verdict == Replayed {
				t.Errorf("%s: %v, %v", r.ID, reply, err)
			}
			if reply.Verdict == Admitted {
				admitted.Add(1)
				sum.Add(int64(r.Estimate.Nanos))
			}
		})
	}
	group.Wait()
	if b := w.budget(); int64(b.Minute.Own) != sum.Load() || b.Concurrency != admitted.Load() || sum.Load() > ceiling || sum.Load() < ceiling-20 {
		t.Errorf("%d admitted, %d nano-dollars; %+v", admitted.Load(), sum.Load(), b)
	}
}
