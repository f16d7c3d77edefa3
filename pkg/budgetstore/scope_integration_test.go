//go:build integration

package budgetstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// agent is a sub-scope with a ceiling for the day.
func agent(id string, day money.Nano) ScopeLimit {
	return ScopeLimit{Kind: window.Agent, ID: id, Minute: admit.NoCeiling(), Day: admit.Hard(day), Month: admit.NoCeiling()}
}

func (w *world) scoped(nano money.Nano, scopes ...ScopeLimit) Request {
	r := w.request(nano)
	r.Scopes = scopes
	return r
}

func (w *world) scopeDay(id string) WindowUse {
	w.t.Helper()
	b, err := w.store.ScopeBudget(w.t.Context(), w.tenant, window.Scope{Kind: window.Agent, ID: id}, w.calendar(), w.limits)
	w.must(err)
	return b.Day
}

// Goal: a call counts in its sub-scopes too, or nowhere; whatever ends or changes it reaches them.
func TestScopesOfACall(t *testing.T) {
	w := newWorld(t)
	centre := ScopeLimit{Kind: window.CostCenter, ID: "rd", Minute: admit.NoCeiling(), Day: admit.Hard(100), Month: admit.Hard(1000)}
	first := w.scoped(60, centre, agent("a", 100))
	ref := w.admit(first)
	refusal := w.refused(w.scoped(50, agent("b", 100), centre), admit.TenantQuotaExceeded, admit.LimitDay)
	if refusal.ScopeKind != window.CostCenter || refusal.ScopeID != "rd" || refusal.Used != 60 || refusal.Asked != 50 || refusal.Ceiling != 100 || refusal.Window != 20260630 {
		t.Errorf("%+v", refusal)
	}
	if b := w.budget(); w.scopeDay("b") != (WindowUse{}) || b.Day.Own != 60 {
		t.Errorf("a refused call counts: %+v, tenant %+v", w.scopeDay("b"), b.Day)
	}
	if r := w.refused(w.scoped(101, agent("a", 100)), admit.EstimateExceedsLimit, admit.LimitDay); r.ScopeID != "a" {
		t.Errorf("%+v", r)
	}
	if again := w.reserve(first); again.Verdict != Replayed {
		t.Errorf("%+v", again)
	}
	grow := ExtendRequest{Ref: ref, Lease: time.Minute, AtLeast: admit.Estimate{Nanos: 101}, Limits: w.limits, Scopes: first.Scopes, Calendar: w.calendar()}
	if reply, err := w.store.Extend(t.Context(), grow); err != nil || !reply.Stop || reply.Refusal.ScopeID != "rd" || reply.Refusal.Used != 60 || reply.Refusal.Asked != 41 {
		t.Errorf("%+v, %v", reply, err)
	}
	grow.AtLeast.Nanos = 90
	if reply, err := w.store.Extend(t.Context(), grow); err != nil || reply.Stop || reply.Held.Nanos != 90 {
		t.Errorf("%+v, %v", reply, err)
	}
	if got := w.scopeDay("a"); got != (WindowUse{20260630, 90, 90, 0}) {
		t.Errorf("grown: %+v", got)
	}
	h, err := w.store.Hold(t.Context(), w.tenant, first.ID)
	w.must(err)
	if len(h.Scopes) != 2 || h.Scopes[0] != (window.Scope{Kind: window.CostCenter, ID: "rd"}) || h.Scopes[1].ID != "a" || string(h.Context) != string(first.Context) {
		t.Errorf("hold %+v", h)
	}
	_, err = w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 10})
	w.must(err)
	if got := w.scopeDay("a"); got != (WindowUse{20260630, 10, 0, 0}) {
		t.Errorf("settled: %+v", got)
	}
	dead := w.admit(w.scoped(5, agent("a", 100)))
	w.clock.advance(61 * time.Second)
	_, err = w.store.Due(t.Context(), w.tenant, 10)
	w.must(err)
	_, err = w.store.Expire(t.Context(), dead)
	w.must(err)
	if got := w.scopeDay("a"); got != (WindowUse{20260630, 15, 0, 0}) {
		t.Errorf("expired: %+v", got)
	}
}

// Goal: usage that never asked, or that only the journal knows, is in the sub-scope before its first reservation.
func TestScopesFromOutside(t *testing.T) {
	w := newWorld(t)
	ref := ScopeRef{Scope: window.Scope{Kind: window.Agent, ID: "a"}}
	total := ExternalTotal{Scope: DayScope, Window: 20260630, Version: 3, Nanos: 70, SubScope: ref}
	for _, want := range []int{1, 0} {
		if n, err := w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{total}); err != nil || n != want {
			t.Fatalf("%d taken, want %d, %v", n, want, err)
		}
	}
	e := JournalEntry{Offset: 4, Kind: Journal, ReservationID: "x", ReservedAt: w.clock.now(), Day: 20260630, Scopes: []ScopeRef{ref}, Actual: admit.Estimate{Nanos: 20}}
	for _, want := range []int{1, 0} {
		if n, err := w.store.ApplyJournal(t.Context(), w.tenant, []JournalEntry{e}); err != nil || n != want {
			t.Fatalf("%d applied, want %d, %v", n, want, err)
		}
	}
	if r := w.refused(w.scoped(11, agent("a", 100)), admit.TenantQuotaExceeded, admit.LimitDay); r.Used != 90 {
		t.Errorf("%+v", r)
	}
	w.admit(w.scoped(10, agent("a", 100)))
	left, err := w.store.client.TTL(t.Context(), key(w.tenant, "c:a:a")).Result()
	if err != nil || left < 35*24*time.Hour || left > 37*24*time.Hour {
		t.Errorf("lives %s, %v", left, err)
	}
	// Another epoch's is none.
	fields, err := w.store.client.HGetAll(t.Context(), key(w.tenant, "c:a:a")).Result()
	w.must(err)
	w.must(w.store.client.HSet(t.Context(), key(w.tenant, "c:a:a"), "{", string(doubles(nil, testEpoch-1))+fields["{"][8:]).Err())
	w.admit(w.scoped(100, agent("a", 100)))
	if got := w.scopeDay("a"); got != (WindowUse{20260630, 100, 100, 0}) {
		t.Errorf("after another epoch: %+v", got)
	}
}

// Goal: values of "*" are bounded: the 1,025th and those after it share one scope; who is not used for 36 days makes room.
func TestStarsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.limits.Concurrency = 5000
	star := func(i int) ScopeLimit {
		s := agent(fmt.Sprint("agent-", i), 100)
		s.Star = true
		return s
	}
	var batch []Request
	for i := range window.MaxEach {
		batch = append(batch, w.scoped(1, star(i)))
	}
	for _, r := range w.store.ReserveBatch(t.Context(), batch) {
		if r.Err != nil || r.Reply.Verdict != Admitted {
			t.Fatalf("%+v", r)
		}
	}
	over := w.scoped(60, star(5000))
	ref := w.admit(over)
	if r := w.refused(w.scoped(60, star(5001)), admit.TenantQuotaExceeded, admit.LimitDay); r.ScopeID != window.OtherScope || r.ScopeKind != window.Agent || r.Used != 60 {
		t.Errorf("%+v", r)
	}
	w.admit(w.scoped(60, star(7)))
	w.admit(w.scoped(60, agent("named", 100)))
	h, err := w.store.Hold(t.Context(), w.tenant, over.ID)
	w.must(err)
	if len(h.Scopes) != 1 || h.Scopes[0].ID != window.OtherScope || string(h.Context) != string(over.Context) {
		t.Errorf("%+v", h)
	}
	_, err = w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 1})
	w.must(err)
	if got := w.scopeDay(window.OtherScope); got.Own != 1 || got.Held != 0 {
		t.Errorf("%+v", got)
	}
	size, err := w.store.client.MemoryUsage(t.Context(), key(w.tenant, "c:a:agent-7"), 0).Result()
	if t.Logf("a sub-scope takes %d bytes", size); err != nil || size > 4096 {
		t.Errorf("%d bytes, %v", size, err)
	}
	w.clock.advance(37 * 24 * time.Hour)
	w.admit(w.scoped(60, star(5000)))
	if got := w.scopeDay("agent-5000"); got.Own != 60 {
		t.Errorf("no room was made: %+v", got)
	}
}
