//go:build integration

package budgetstore

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// A hold opened at 23:59 and settled at 00:01 is charged to the day and month in which it was reserved (field report 107).
func TestSettleAfterMidnight(t *testing.T) {
	w := newWorld(t)
	r := w.request(100)
	r.Lease = 5 * time.Minute
	ref := w.admit(r)
	w.clock.advance(3 * time.Minute)
	w.admit(w.request(7))
	_, err := w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 60})
	w.must(err)
	if b := w.budget(); b.Day.Label != 20260701 || b.Day.Own != 7 || b.Month.Own != 7 || b.Minute.Own != 7 {
		t.Fatalf("new day %+v", b)
	}
	june := admit.CalendarAt(start(), time.UTC)
	june.Windows.DayEnds, june.Windows.MonthEnds = june.Windows.DayEnds.AddDate(1, 0, 0), june.Windows.MonthEnds.AddDate(1, 0, 0)
	b, err := w.store.Budget(t.Context(), w.tenant, june, admit.Limits{})
	w.must(err)
	if b.Day.Label != 20260630 || b.Day.Own != 60 || b.Day.Held != 0 || b.Month.Own != 60 || b.Month.Held != 0 {
		t.Fatalf("old day %+v", b)
	}
}

// The labels switch at the store's midnight, whichever side of it the caller's clock is on.
func TestMidnightByStoreClock(t *testing.T) {
	midnight := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		store, caller time.Duration
		day, month    int32
	}{
		{-time.Second, time.Second, 20260630, 202606}, {time.Second, -time.Second, 20260701, 202607},
		{-time.Microsecond, time.Second, 20260630, 202606}, {0, -time.Second, 20260701, 202607},
	} {
		w := newWorld(t)
		w.clock.us.Store(midnight.Add(c.store).UnixMicro())
		r := w.request(1)
		r.Calendar = admit.CalendarAt(midnight.Add(c.caller), time.UTC)
		if a := w.reserve(r).Answer; a.Day != c.day || a.Month != c.month {
			t.Errorf("%+v: charged in %d and %d", c, a.Day, a.Month)
		}
	}
}

// The owner dies: the lease frees concurrency, the estimate stays, the reaper sees the hold until it is cleared, and a
// settle that comes meanwhile is taken.
func TestExpiry(t *testing.T) {
	w := newWorld(t)
	w.limits.Concurrency = 3
	for range 3 {
		w.admit(w.request(10))
	}
	due := func() []Hold {
		list, err := w.store.Due(t.Context(), w.tenant, 10)
		w.must(err)
		return list
	}
	if list := due(); len(list) != 0 {
		t.Fatalf("due too early: %+v", list)
	}
	w.clock.advance(time.Minute + time.Second)
	tenants, err := w.store.WithDue(t.Context(), []Tenant{w.tenant, {ID: "nobody"}}, w.clock.now())
	if err != nil || len(tenants) != 1 || tenants[0] != w.tenant {
		t.Fatalf("with due: %v %v", tenants, err)
	}
	first, again := due(), due()
	if len(first) != 3 || len(again) != 3 || string(first[0].Context) != "context of r1" || first[0].State != HoldExpiring {
		t.Fatalf("due %+v, again %+v", first, again)
	}
	if b := w.budget(); b.Concurrency != 0 || b.Expiring != 3 || b.Day.Own != 30 || b.Day.Held != 30 {
		t.Fatalf("%+v", b)
	}
	if v := w.reserve(Request{Tenant: w.tenant, ID: "r1", Fingerprint: first[0].Fingerprint, Limits: w.limits, Calendar: w.calendar(),
		Lease: time.Second}).Verdict; v != Ended {
		t.Fatalf("reserve of an expiring id: %d", v)
	}
	ref := func(h Hold) Ref { return Ref{Tenant: w.tenant, ID: h.ID, ReservedAt: h.Answer.ReservedAt} }
	if r, err := w.store.Extend(t.Context(), ExtendRequest{Ref: ref(first[0]), Lease: time.Minute, Limits: w.limits, Calendar: w.calendar()}); err != nil || r.Found {
		t.Fatalf("extend of an expiring hold: %+v %v", r, err)
	}
	for range 2 {
		_, err = w.store.Expire(t.Context(), ref(first[0]))
		w.must(err)
	}
	_, err = w.store.Settle(t.Context(), ref(first[1]), admit.Estimate{Nanos: 4})
	w.must(err)
	if b := w.budget(); b.Expiring != 1 || b.Day.Own != 24 || b.Day.Held != 10 {
		t.Fatalf("%+v", b)
	}
}

// External totals lower what is left, once per version; a minute counts whole until 60 s after its end.
func TestExternal(t *testing.T) {
	w := newWorld(t)
	w.limits.Minute = admit.Hard(100)
	minute := w.clock.now().Truncate(time.Minute)
	total := ExternalTotal{Scope: MinuteScope, Window: minute.Unix(), Version: 5, Nanos: 70}
	for i, want := range []int{1, 0} {
		taken, err := w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{total})
		if err != nil || taken != want {
			t.Fatalf("application %d: taken %d, %v", i, taken, err)
		}
	}
	refusal := w.refused(w.request(31), admit.TenantQuotaExceeded, admit.LimitMinute)
	if want := minute.Add(2 * time.Minute); !refusal.ResetsAt(time.UTC).Equal(want) {
		t.Fatalf("resets at %s, want %s", refusal.ResetsAt(time.UTC), want)
	}
	w.admit(w.request(30))
	w.clock.us.Store(minute.Add(2*time.Minute).UnixMicro() - 1)
	w.refused(w.request(31), admit.TenantQuotaExceeded, admit.LimitMinute)
	w.clock.us.Store(minute.Add(2 * time.Minute).UnixMicro())
	w.admit(w.request(31))
	// A day's total of tomorrow waits for tomorrow.
	_, err := w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{
		{Scope: DayScope, Window: 20260701, Version: 9, Nanos: 40}, {Scope: DayScope, Window: 20260702, Version: 9, Nanos: 1000}})
	w.must(err)
	if b := w.budget(); b.Day.External != 40 || b.Day.Label != 20260701 {
		t.Fatalf("%+v", b)
	}
}

// A revoked root is refused with all its descendants, before its budget, and holders are told to stop.
func TestRevoked(t *testing.T) {
	w := newWorld(t)
	r := w.request(10)
	r.Execution = admit.Execution{Root: "loop", ExecutionLimits: admit.ExecutionLimits{MaxCost: 20, MaxDepth: 3}}
	ref := w.admit(r)
	next := func(nano money.Nano, depth int64) Request {
		q := w.request(nano)
		q.Execution = admit.Execution{Root: "loop", Depth: depth, ExecutionLimits: admit.ExecutionLimits{MaxCost: 1000}}
		return q
	}
	w.refused(next(11, 0), admit.ExecutionBudgetExceeded, admit.LimitMaxCost)
	w.refused(next(1, 4), admit.ExecutionDepthExceeded, admit.LimitMaxDepth)
	w.must(w.store.Revoke(t.Context(), w.tenant, "loop"))
	w.refused(next(11, 1), admit.ExecutionRevoked, admit.NoLimit)
	stop, err := w.store.Extend(t.Context(), ExtendRequest{Ref: ref, Lease: time.Minute, Limits: w.limits, Calendar: w.calendar()})
	if err != nil || !stop.Stop || stop.Refusal.Code != admit.ExecutionRevoked {
		t.Fatalf("%+v %v", stop, err)
	}
	w.must(w.store.Revoke(t.Context(), w.tenant, "not-seen-yet"))
	q := w.request(1)
	q.Execution.Root = "not-seen-yet"
	w.refused(q, admit.ExecutionRevoked, admit.NoLimit)
	if err := w.store.CloseExecution(t.Context(), w.tenant, "never"); !errors.Is(err, ErrNoExecution) {
		t.Fatal(err)
	}
}

// Redis forgets the scripts, as after a restart: the next call loads them.
func TestScriptsReload(t *testing.T) {
	url := testkit.Redis(t)
	w := newWorldAt(t, url)
	w.must(w.store.client.ScriptFlush(t.Context()).Err())
	w.admit(w.request(1))
	epoch, err := w.store.Epoch(t.Context())
	if !errors.Is(err, ErrNoEpoch) {
		t.Fatal(epoch, err)
	}
	for range 2 {
		if epoch, err = w.store.InitEpoch(t.Context(), 42+epoch); err != nil || epoch != 42 {
			t.Fatal(epoch, err)
		}
	}
	w.must(w.store.client.FlushAll(t.Context()).Err())
	if _, err := w.store.Reserve(t.Context(), w.request(1)); !errors.Is(err, ErrLost) {
		t.Fatalf("emptied: %v", err)
	}
	w.must(w.store.client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	if _, err := Open(t.Context(), url+"?read_timeout=1m", Options{}); !errors.Is(err, ErrEviction) {
		t.Fatalf("evicting redis: %v", err)
	}
}

// A paused Redis: every call fails within its deadline, and what it runs afterwards is one hold that the id finds again.
func TestPaused(t *testing.T) {
	server := testkit.RedisServer(t, part.Config{})
	w := newWorldAt(t, server.Address)
	r := w.request(5)
	w.must(syscall.Kill(server.PID, syscall.SIGSTOP))
	quick := false // what fails late each time is slow, what failed late once may have been the machine
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err := w.store.Reserve(ctx, r)
		quick = quick || time.Since(began) < 500*time.Millisecond
		cancel()
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("paused: %v", err)
		}
	}
	if !quick {
		t.Error("no call has failed within its deadline")
	}
	w.must(syscall.Kill(server.PID, syscall.SIGCONT))
	reply, err := w.store.Reserve(t.Context(), r)
	w.must(err)
	if reply.Verdict != Admitted && reply.Verdict != Replayed {
		t.Fatalf("%+v", reply)
	}
	if b := w.budget(); b.Day.Own != 5 || b.Concurrency != 1 {
		t.Fatalf("%+v", b)
	}
}

// Memory of a tenant depends neither on its traffic nor on its kind of month: under 4 KB with every slot in use and each
// number as long as it can be, ended holds included. Only its name comes on top.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	w.tenant.ID = "acme"
	_, err := w.store.CreateTenant(t.Context(), w.tenant)
	w.must(err)
	w.must(w.store.MarkReady(t.Context(), w.tenant))
	w.limits.Rolling30, w.limits.OpenExecutions = true, 5
	call := func() {
		t.Helper()
		r := w.request(dollar + 1)
		r.Estimate.InputTokens, r.Estimate.OutputTokens = 1<<40+1, 1<<40+1
		_, err := w.store.Settle(t.Context(), w.admit(r), admit.Estimate{Nanos: 2*dollar + 1, InputTokens: 1<<41 + 1, OutputTokens: 1<<41 + 1})
		w.must(err)
	}
	for day := range 70 {
		if day%31 == 5 { // the plan changes its kind of month
			w.limits.Rolling30 = !w.limits.Rolling30
		}
		call()
		c := w.calendar().Windows
		totals := []ExternalTotal{{Scope: DayScope, Window: int64(c.Day), Version: 1<<40 + int64(day), Nanos: dollar}, {Scope: MonthScope, Window: int64(c.Month), Version: 1<<40 + int64(day), Nanos: dollar}}
		for i := range int64(8) {
			totals = append(totals, ExternalTotal{Window: c.Now.Unix()/60*60 + 60*i, Version: 1<<40 + 1, Nanos: dollar})
		}
		_, err := w.store.ApplyExternal(t.Context(), w.tenant, totals)
		w.must(err)
		w.clock.advance(24 * time.Hour)
	}
	for range 130 {
		call()
		w.clock.advance(time.Second)
	}
	w.must(w.store.client.HSet(t.Context(), key(w.tenant, "s"), "{o", "12345678").Err()) // what a limit of open executions leaves behind
	use := func(name string) int64 {
		n, err := w.store.client.MemoryUsage(t.Context(), key(w.tenant, name), 0).Result()
		w.must(err)
		return n
	}
	fields, err := w.store.client.HGetAll(t.Context(), key(w.tenant, "s")).Result()
	w.must(err)
	for name, size := range map[string]int{"{": 197, "{n": nowSize, "{b": 56, "{c": 220, "{k": 759, "{o": 8, "{r0": 360, "{r1": 360, "{r2": 360, "{r3": 360} {
		if len(fields[name]) != size {
			t.Errorf("field %s has %d bytes, want %d: not the worst case", name, len(fields[name]), size)
		}
	}
	if n, err := w.store.client.StrLen(t.Context(), key(w.tenant, "d")).Result(); err != nil || n != 448 {
		t.Errorf("the ids that ended take %d bytes, %v: not the worst case", n, err)
	}
	before := use("s") + use("d")
	if t.Logf("state %d bytes", before); before > 4096 {
		t.Errorf("the state takes %d bytes", before)
	}
	w.admit(w.request(3))
	if n := use("s") - before; n > 600 {
		t.Errorf("a hold takes %d bytes", n)
	}
	left, err := w.store.client.TTL(t.Context(), key(w.tenant, "s")).Result()
	if err != nil || left > 0 {
		t.Errorf("the state key expires in %s, %v", left, err)
	}
}

// Entries of one execution in one call of the journal add up, whatever each of them is.
func TestJournalOfOneExecution(t *testing.T) {
	w := newWorld(t)
	call := func() Ref {
		r := w.request(10)
		r.Execution.Root = "x"
		return w.admit(r)
	}
	first, second, third := call(), call(), call()
	entry := func(offset int64, kind JournalKind, ref Ref, nano money.Nano) JournalEntry {
		return JournalEntry{Offset: offset, Kind: kind, ReservationID: ref.ID, ReservedAt: ref.ReservedAt, Day: 20260630, Root: "x", Actual: admit.Estimate{Nanos: nano}}
	}
	lost := func(e JournalEntry) JournalEntry { e.Lost = true; return e }
	unknown := Ref{ID: "unknown", ReservedAt: w.clock.now()}
	for _, c := range []struct {
		entries   []JournalEntry
		own, held money.Nano
		calls     int64
		ended     []money.Nano // what each entry found held, if it ended that by an amount of its own
	}{
		{[]JournalEntry{entry(0, Direct, first, 3), entry(1, Journal, unknown, 100), entry(2, External, second, 5)}, 3 + 100 + 10, 10, 3, []money.Nano{10, 0, 0}},
		{[]JournalEntry{entry(3, Journal, unknown, 1000), lost(entry(4, Journal, third, 1))}, 1104, 0, 3, []money.Nano{0, 10}},
		{[]JournalEntry{lost(entry(5, Journal, unknown, 10)), lost(entry(6, Direct, unknown, 10))}, 1114, 0, 4, []money.Nano{0, 0}}, // no call of it was counted
	} {
		_, err := w.store.ApplyJournal(t.Context(), w.tenant, c.entries)
		w.must(err)
		if x, err := w.store.Execution(t.Context(), w.tenant, "x"); err != nil || x.Own != c.own || x.Held != c.held || x.Calls != c.calls {
			t.Errorf("%+v, %v, want own %d, held %d", x, err, c.own, c.held)
		}
		for i, e := range c.entries {
			if e.Held != c.ended[i] {
				t.Errorf("entry %d ended what held %d, want %d", e.Offset, e.Held, c.ended[i])
			}
		}
	}
}

// Holds that nobody reaps are bounded: at the bound the tenant is refused, and let in again when they are gone.
func TestUnreapedBound(t *testing.T) {
	w := newWorld(t)
	w.admit(w.request(1))
	w.clock.advance(2 * time.Minute)
	list, err := w.store.Due(t.Context(), w.tenant, 10)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	// The counter of expiring holds are 4 bytes of the state: here 2^16.
	head, err := w.store.client.HGet(t.Context(), key(w.tenant, "s"), "{").Result()
	w.must(err)
	w.must(w.store.client.HSet(t.Context(), key(w.tenant, "s"), "{", head[:20]+"\x00\x00\x01\x00"+head[24:]).Err())
	if _, err := w.store.Reserve(t.Context(), w.request(1)); !errors.Is(err, ErrFull) {
		t.Fatalf("at the bound: %v", err)
	}
	_, err = w.store.Expire(t.Context(), Ref{Tenant: w.tenant, ID: list[0].ID, ReservedAt: list[0].Answer.ReservedAt})
	w.must(err)
	w.admit(w.request(1))
}

// An execution opens with its first reservation and counts until it is closed, revoked or idle; more than the limit wait.
func TestOpenExecutions(t *testing.T) {
	w := newWorld(t)
	w.limits.OpenExecutions = 2
	call := func(root string) Request {
		r := w.request(1)
		r.Execution.Root = root
		return r
	}
	refused := func(root string) {
		t.Helper()
		refusal := w.refused(call(root), admit.RateLimited, admit.LimitOpenExecutions)
		if wait, ok := refusal.RetryAfter(); refusal.Used != 2 || refusal.Ceiling != 2 || !ok || wait != time.Second {
			t.Fatalf("%+v, wait %s", refusal, wait)
		}
	}
	first := w.admit(call("a"))
	w.admit(call("b"))
	w.admit(call("a"))
	refused("c")
	w.admit(w.request(1)) // without an execution
	w.must(w.store.CloseExecution(t.Context(), w.tenant, "a"))
	w.admit(call("c"))
	refused("a") // resuming opens it again
	w.must(w.store.Revoke(t.Context(), w.tenant, "c"))
	w.admit(call("a"))
	refused("d")
	w.clock.advance(16 * time.Minute)
	refused("d") // a and b still hold something
	_, err := w.store.Due(t.Context(), w.tenant, 10)
	w.must(err)
	for id, ref := range map[string]Ref{"r1": first, "r2": {Tenant: w.tenant, ID: "r2"}} {
		h, err := w.store.Hold(t.Context(), w.tenant, id)
		w.must(err)
		ref.ReservedAt = h.Answer.ReservedAt
		_, err = w.store.Expire(t.Context(), ref)
		w.must(err)
	}
	refused("d") // b was used just now, by the end of its last hold
	w.clock.advance(15 * time.Minute)
	w.admit(call("d"))
	x, err := w.store.Execution(t.Context(), w.tenant, "b")
	if err != nil || !x.Closed {
		t.Fatalf("idle execution %+v, %v", x, err)
	}
	w.limits.OpenExecutions = 0
	w.admit(call("e"))
	w.admit(call("f"))
}
