//go:build integration

package budgetstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// Field report 1: $1.00 a minute and ten calls of $0.30 at once admit exactly three, whoever comes first.
func TestExactlyThree(t *testing.T) {
	w := newWorld(t)
	w.limits.Minute = admit.Hard(dollar)
	verdicts := make(chan Verdict, 10)
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for range 10 {
		r := w.request(300_000_000)
		wg.Go(func() {
			<-gate
			reply, err := w.store.Reserve(context.WithoutCancel(t.Context()), r)
			if err != nil {
				t.Error(err)
			}
			verdicts <- reply.Verdict
		})
	}
	close(gate)
	wg.Wait()
	close(verdicts)
	admitted := 0
	for v := range verdicts {
		if v == Admitted {
			admitted++
		}
	}
	if b := w.budget(); admitted != 3 || b.Minute.Own != 900_000_000 || b.Day.Held != 900_000_000 {
		t.Fatalf("admitted %d, budget %+v", admitted, b)
	}
}

// Used + estimate may reach a ceiling, not pass it by a nano-dollar.
func TestCeilingIsInclusive(t *testing.T) {
	for name, set := range map[admit.Limit]func(*admit.Limits){
		admit.LimitMinute: func(l *admit.Limits) { l.Minute = admit.Hard(100) },
		admit.LimitDay:    func(l *admit.Limits) { l.Day = admit.Hard(100) },
		admit.LimitMonth:  func(l *admit.Limits) { l.Month = admit.Hard(100) },
	} {
		t.Run(string(name), func(t *testing.T) {
			w := newWorld(t)
			set(&w.limits)
			w.admit(w.request(60))
			before := w.budget()
			w.refused(w.request(41), admit.TenantQuotaExceeded, name)
			w.refused(w.request(101), admit.EstimateExceedsLimit, name)
			if after := w.budget(); !reflect.DeepEqual(before, after) {
				t.Fatalf("a refusal changed %+v to %+v", before, after)
			}
			w.admit(w.request(40))
			w.refused(w.request(1), admit.TenantQuotaExceeded, name)
		})
	}
}

// A soft day goes on to its cap; the rung is that of what was used before the call.
func TestSoftDay(t *testing.T) {
	w := newWorld(t)
	percent, err := money.ParsePercent("10")
	w.must(err)
	w.limits.Day = admit.Soft(10*dollar, percent)
	for i, want := range []uint8{0, 1, 2, 3} {
		r := w.request([]money.Nano{5 * dollar, 3 * dollar, 2 * dollar, dollar}[i])
		reply := w.reserve(r)
		if reply.Verdict != Admitted || uint8(reply.Answer.Rung) != want || reply.Answer.PercentUsed() != []int64{0, 50, 80, 100}[i] {
			t.Fatalf("call %d: %+v", i, reply)
		}
	}
	refusal := w.refused(w.request(1), admit.TenantQuotaExceeded, admit.LimitDay)
	if got := refusal.ResetsAt(time.UTC); !got.Equal(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)) {
		t.Fatalf("resets at %s", got)
	}
}

// Each rate refuses alone, says when it frees, and does so then (field reports 10, 11, 35).
func TestRates(t *testing.T) {
	for limit, set := range map[admit.Limit]func(*admit.Limits){
		admit.LimitRequests:     func(l *admit.Limits) { l.Requests = 10 },
		admit.LimitInputTokens:  func(l *admit.Limits) { l.InputTokens = 100 },
		admit.LimitOutputTokens: func(l *admit.Limits) { l.OutputTokens = 100 },
	} {
		t.Run(string(limit), func(t *testing.T) {
			w := newWorld(t)
			set(&w.limits)
			for range 10 {
				r := w.request(1)
				r.Estimate.InputTokens, r.Estimate.OutputTokens = 10, 10
				w.admit(r)
				w.clock.advance(time.Second)
			}
			again := func() Request {
				r := w.request(1)
				r.Estimate.InputTokens, r.Estimate.OutputTokens = 10, 10
				return r
			}
			refusal := w.refused(again(), admit.RateLimited, limit)
			wait, ok := refusal.RetryAfter()
			if !ok || wait < 50*time.Second || wait > 52*time.Second {
				t.Fatalf("retry after %s", wait)
			}
			w.clock.us.Store(refusal.FreesAt.UnixMicro() - 1)
			w.refused(again(), admit.RateLimited, limit)
			w.clock.us.Store(refusal.FreesAt.UnixMicro())
			w.admit(again())
		})
	}
}

// Concurrency comes back when a call ends, or when its lease does (field reports 4, 34).
func TestConcurrency(t *testing.T) {
	w := newWorld(t)
	w.limits.Concurrency = 2
	first := w.admit(w.request(5))
	w.admit(w.request(5))
	refusal := w.refused(w.request(5), admit.RateLimited, admit.LimitConcurrency)
	if d := refusal.FreesAt.Sub(w.clock.now()); d < 59*time.Second || d > 61*time.Second {
		t.Fatalf("frees in %s", d)
	}
	_, err := w.store.Settle(t.Context(), first, admit.Estimate{Nanos: 5})
	w.must(err)
	w.admit(w.request(5))
	w.clock.advance(61 * time.Second)
	w.admit(w.request(5))
	w.admit(w.request(5))
	w.refused(w.request(5), admit.RateLimited, admit.LimitConcurrency)
}

// The same id: replayed with every figure while open, a conflict with other content, ended afterwards (field report 28).
func TestIdempotence(t *testing.T) {
	w := newWorld(t)
	w.limits.Day = admit.Hard(10 * dollar)
	r := w.request(dollar)
	r.Execution = admit.Execution{Root: "root", Depth: 2, ExecutionLimits: admit.ExecutionLimits{MaxCost: 3 * dollar}}
	first := w.reserve(r)
	w.admit(w.request(2 * dollar))
	w.clock.advance(3 * time.Second)
	again := r
	again.Calendar, again.Context, again.Limits.Day = w.calendar(), []byte("other"), admit.Hard(20*dollar)
	second := w.reserve(again)
	if second.Verdict != Replayed || !reflect.DeepEqual(first.Answer, second.Answer) || string(second.Context) != string(r.Context) {
		t.Fatalf("replay %+v, first %+v", second, first)
	}
	other := again
	other.Fingerprint = admit.Content{Model: "another"}.Fingerprint()
	if v := w.reserve(other).Verdict; v != Conflict {
		t.Fatalf("other content: %d", v)
	}
	before := w.budget()
	ref := Ref{Tenant: w.tenant, ID: r.ID, ReservedAt: first.Answer.ReservedAt}
	ending, err := w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 400_000_000})
	w.must(err)
	if !ending.Applied || ending.Held.Nanos != dollar {
		t.Fatalf("settle %+v", ending)
	}
	for range 2 { // a second settle or release finds nothing (field report 26)
		ending, err = w.store.Release(t.Context(), ref)
		w.must(err)
		if ending.Applied {
			t.Fatal("a hold ended twice")
		}
	}
	if after := w.budget(); after.Day.Own != before.Day.Own-600_000_000 || after.Day.Held != before.Day.Held-dollar {
		t.Fatalf("before %+v, after %+v", before.Day, after.Day)
	}
	if v := w.reserve(again).Verdict; v != Ended {
		t.Fatalf("after its end: %d", v)
	}
	w.clock.advance(3 * time.Minute)
	again.Calendar = w.calendar()
	if v := w.reserve(again).Verdict; v != Admitted {
		t.Fatalf("when forgotten: %d", v)
	}
	if ending, err = w.store.Settle(t.Context(), ref, admit.Estimate{}); err != nil || ending.Applied {
		t.Fatalf("the first reserved-at ended the second hold: %+v %v", ending, err)
	}
}

// Counters that are missing, unready, of another epoch or under a strange clock refuse (I2).
func TestFailClosed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	skewed := w.request(1)
	skewed.Calendar = admit.CalendarAt(w.clock.now().Add(2*time.Second+time.Microsecond), time.UTC)
	epoch := w.request(1)
	epoch.Tenant.Epoch++
	unknown := w.request(1)
	unknown.Tenant.ID += "-unknown"
	unready := w.request(1)
	unready.Tenant.ID += "-unready"
	if created, err := w.store.CreateTenant(ctx, unready.Tenant); err != nil || !created {
		t.Fatal(created, err)
	}
	for want, r := range map[error]Request{ErrClockSkew: skewed, ErrEpoch: epoch, ErrLost: unknown, ErrNotReady: unready} {
		if _, err := w.store.Reserve(ctx, r); !errors.Is(err, want) {
			t.Errorf("reserve: %v, want %v", err, want)
		}
	}
	w.admit(w.request(1))
	w.must(w.store.client.Del(ctx, key(w.tenant, "s")).Err())
	calls := map[string]func() error{
		"reserve": func() error { _, err := w.store.Reserve(ctx, w.request(1)); return err },
		"settle": func() error {
			_, err := w.store.Settle(ctx, Ref{Tenant: w.tenant, ID: "r1"}, admit.Estimate{})
			return err
		},
		"extend": func() error {
			_, err := w.store.Extend(ctx, ExtendRequest{Ref: Ref{Tenant: w.tenant, ID: "r1"}, Lease: time.Second, Limits: w.limits, Calendar: w.calendar()})
			return err
		},
		"due":  func() error { _, err := w.store.Due(ctx, w.tenant, 1); return err },
		"hold": func() error { _, err := w.store.Hold(ctx, w.tenant, "r1"); return err },
		"journal": func() error {
			_, err := w.store.ApplyJournal(ctx, w.tenant, []JournalEntry{{ReservationID: "r1"}})
			return err
		},
		"external": func() error {
			_, err := w.store.ApplyExternal(ctx, w.tenant, []ExternalTotal{{Version: 1}})
			return err
		},
		"revoke": func() error { return w.store.Revoke(ctx, w.tenant, "x") },
		"budget": func() error { _, err := w.store.Budget(ctx, w.tenant, w.calendar(), w.limits); return err },
		"ready":  func() error { return w.store.MarkReady(ctx, w.tenant) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrLost) {
			t.Errorf("%s on lost counters: %v", name, err)
		}
	}
}

// At 2^53 - 1 nano-dollars a counter is full: refused, and exact up to there.
func TestBound(t *testing.T) {
	w := newWorld(t)
	w.admit(w.request(money.MaxNano - 1))
	w.admit(w.request(1))
	w.refused(w.request(1), admit.TenantQuotaExceeded, admit.LimitMonth)
	if b := w.budget(); b.Month.Own != money.MaxNano || b.Minute.Own != money.MaxNano {
		t.Fatalf("%+v", b)
	}
	r := w.request(1)
	r.Estimate.Nanos = money.MaxNano + 1
	if _, err := w.store.Reserve(t.Context(), r); !errors.Is(err, admit.ErrInvalid) {
		t.Fatalf("beyond the bound: %v", err)
	}
	tokens := newWorld(t)
	r = tokens.request(1)
	r.Estimate.OutputTokens = admit.Unlimited
	tokens.admit(r)
	r = tokens.request(1)
	r.Estimate.OutputTokens = 1
	tokens.refused(r, admit.RateLimited, admit.LimitOutputTokens)
}

// Whatever the limits that fail together, the script reports the one that admit.Decide puts first.
func TestPrecedence(t *testing.T) {
	base := newWorld(t)
	for mask := range 1 << 10 {
		fresh := *base
		w := &fresh
		w.tenant.ID = fmt.Sprintf("%s-%d", base.tenant.ID, mask)
		_, err := w.store.CreateTenant(t.Context(), w.tenant)
		w.must(err)
		w.must(w.store.MarkReady(t.Context(), w.tenant))
		has := func(bit int) bool { return mask&(1<<bit) != 0 }
		r := w.request(10)
		r.Execution = admit.Execution{Root: "x", Depth: 1}
		r.Estimate.InputTokens, r.Estimate.OutputTokens = 10, 10
		w.admit(r)
		u := admit.Usage{Requests: 1, InputTokens: 10, OutputTokens: 10, Running: 1, Minute: 10, Day: 10, Month: 10,
			Execution: admit.ExecutionUsage{Spent: 10, Calls: 1}}
		l, x := w.limits, admit.ExecutionLimits{}
		for bit, set := range []func(){
			func() { u.Execution.Revoked = true; w.must(w.store.Revoke(t.Context(), w.tenant, "x")) },
			func() { l.Minute = admit.Hard([]money.Nano{5, 15}[mask%2]) },
			func() { l.Day = admit.Hard(15) }, func() { l.Month = admit.Hard(15) }, func() { x.MaxCost = 15 }, func() { x.MaxCalls = 1 },
			func() { l.Requests = 1 }, func() { l.InputTokens = 15 }, func() { l.OutputTokens = 9 }, func() { l.Concurrency = 1 },
		} {
			if has(bit) {
				set()
			}
		}
		_, err = w.store.StartExecution(t.Context(), w.tenant, "x", x)
		w.must(err)
		r2 := w.request(10)
		r2.Execution, r2.Estimate, r2.Limits = r.Execution, r.Estimate, l
		r2.Execution.ExecutionLimits = x
		want := admit.Decide(l, r2.ask(), r2.Execution, u)
		got := w.reserve(r2)
		if got.Refusal.Code != want.Code || got.Refusal.Limit != want.Limit || got.Refusal.Used != want.Used || got.Refusal.Ceiling != want.Ceiling {
			t.Fatalf("mask %b: got %+v, want %+v", mask, got.Refusal, want)
		}
	}
}
