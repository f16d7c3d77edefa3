//go:build integration

package budgetstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/testkit"
)

// logical is a clock that only the test moves, in µs.
type logical struct{ us atomic.Int64 }

func (c *logical) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *logical) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

// world is one tenant in the real Redis under a logical clock.
type world struct {
	t      testing.TB
	store  *Store
	clock  *logical
	tenant Tenant
	limits admit.Limits
	ids    int
}

const testEpoch = 4_000_000_000_000_007

// start is a Tuesday, 23:58:20 UTC, the last of a month: midnight is near.
func start() time.Time { return time.Date(2026, 6, 30, 23, 58, 20, 123_456_000, time.UTC) }

// newWorld has a Redis of its own.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldAt(t, testkit.Redis(t))
}

func newWorldAt(t testing.TB, url string) *world {
	t.Helper()
	w := &world{t: t, clock: &logical{}, tenant: Tenant{ID: fmt.Sprintf("%s-%d", safe(t.Name()), time.Now().UnixNano()), Epoch: testEpoch}}
	w.clock.us.Store(start().UnixMicro())
	// A late answer is a late answer, and no second try.
	store, err := Open(t.Context(), url+"?read_timeout=1m", Options{ScriptClock: w.clock.now})
	w.must(err)
	t.Cleanup(func() { _ = store.Close() })
	w.store = store
	// What the disk does is not what these tests are about.
	w.must(store.client.ConfigSet(t.Context(), "appendfsync", "no").Err())
	_, err = store.CreateTenant(t.Context(), w.tenant)
	w.must(err)
	w.must(store.MarkReady(t.Context(), w.tenant))
	w.limits = admit.Limits{Concurrency: 1000, Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling(), Ladder: ladder.Default()}
	return w
}

func safe(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c == '/' {
			b[i] = '.'
		}
	}
	return string(b)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) calendar() admit.Calendar { return admit.CalendarAt(w.clock.now(), time.UTC) }

// request is a reservation of a new id that asks for nano dollars.
func (w *world) request(nano money.Nano) Request {
	w.ids++
	id := fmt.Sprintf("r%d", w.ids)
	return Request{Tenant: w.tenant, ID: id, Fingerprint: admit.Content{Model: id}.Fingerprint(), Estimate: admit.Estimate{Nanos: nano},
		Limits: w.limits, Calendar: w.calendar(), Lease: time.Minute, Context: []byte("context of " + id)}
}

func (w *world) reserve(r Request) Reply {
	w.t.Helper()
	reply, err := w.store.Reserve(w.t.Context(), r)
	w.must(err)
	return reply
}

// admit reserves and expects a yes.
func (w *world) admit(r Request) Ref {
	w.t.Helper()
	reply := w.reserve(r)
	if reply.Verdict != Admitted {
		w.t.Fatalf("%s: verdict %d %+v, want admitted", r.ID, reply.Verdict, reply.Refusal)
	}
	return Ref{Tenant: w.tenant, ID: r.ID, ReservedAt: reply.Answer.ReservedAt}
}

// refused reserves and expects a no for the limit.
func (w *world) refused(r Request, code admit.Code, limit admit.Limit) admit.Refusal {
	w.t.Helper()
	reply := w.reserve(r)
	if reply.Verdict != Refused || reply.Refusal.Code != code || reply.Refusal.Limit != limit {
		w.t.Fatalf("%s: verdict %d %s %s, want %s %s", r.ID, reply.Verdict, reply.Refusal.Code, reply.Refusal.Limit, code, limit)
	}
	return reply.Refusal
}

func (w *world) budget() Budget {
	w.t.Helper()
	b, err := w.store.Budget(w.t.Context(), w.tenant, w.calendar(), w.limits)
	w.must(err)
	return b
}

const dollar = money.Nano(1_000_000_000)
