//go:build integration

package budgetstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// branches is a chain of branches with their limits, from the root's side down.
func branches(list ...admit.Branch) admit.Execution {
	return admit.Execution{Root: "x", Branches: list}
}

func (w *world) in(x admit.Execution, nano money.Nano) Request {
	r := w.request(nano)
	r.Execution = x
	return r
}

func (w *world) branch(id string) ExecutionState {
	w.t.Helper()
	x, err := w.store.Branch(w.t.Context(), w.tenant, id)
	w.must(err)
	return x
}

// Goal: a branch and all below it never have more than its limit settled and held, whatever the root or siblings do; a refusal
// names the branch and its figures; what gives back elsewhere gives back here; the answer's rest is the least of the chain.
func TestBranch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, deep, sibling := admit.Branch{ID: "a", MaxCost: 5 * dollar}, admit.Branch{ID: "deep", MaxCost: 2 * dollar}, admit.Branch{ID: "b", MaxCost: 9 * dollar}
	for _, b := range []admit.Branch{a, deep, sibling} {
		w.must(w.store.StartBranch(ctx, w.tenant, "x", b, time.Hour))
	}
	if x := w.branch("a"); !x.Known || x.Limits.MaxCost != a.MaxCost || x.Own != 0 {
		t.Errorf("a new branch: %+v", x)
	}
	root := branches()
	root.MaxCost = 20 * dollar
	child, grandchild := branches(a), branches(a, deep)
	child.MaxCost, grandchild.MaxCost = root.MaxCost, root.MaxCost

	reply := w.reserve(w.in(root, 8*dollar)) // what the root spends itself is nothing to a branch
	if x := reply.Answer.Execution; x.Remaining != 12*dollar || !x.Limited {
		t.Errorf("the root: %+v", x)
	}
	first := w.in(grandchild, dollar)
	reply = w.reserve(first)
	if x := reply.Answer.Execution; reply.Verdict != Admitted || x.Remaining != dollar || !x.Limited || x.Spent != 9*dollar {
		t.Errorf("the grandchild has its own rest: %+v", x)
	}
	if again := w.reserve(first); again.Verdict != Replayed || again.Answer != reply.Answer {
		t.Errorf("a repeat: %+v", again)
	}
	ref := Ref{Tenant: w.tenant, ID: first.ID, ReservedAt: reply.Answer.ReservedAt}
	no := w.refused(w.in(grandchild, dollar+1), admit.ExecutionBudgetExceeded, admit.LimitMaxCost)
	if no.ScopeKind != window.Branch || no.ScopeID != "deep" || no.Used != int64(dollar) || no.Asked != int64(dollar)+1 || no.Ceiling != int64(2*dollar) || no.Trips() {
		t.Errorf("refused by the grandchild's limit: %+v", no)
	}
	held := w.admit(w.in(child, 4*dollar))
	if no = w.refused(w.in(grandchild, 1), admit.ExecutionBudgetExceeded, admit.LimitMaxCost); no.ScopeID != "a" {
		t.Errorf("the child's limit holds for the grandchild: %+v", no)
	}
	w.admit(w.in(branches(sibling), dollar))
	if x := w.branch("a"); x.Own != 5*dollar || x.Held != 5*dollar || x.Calls != 2 {
		t.Errorf("a: %+v", x)
	}

	_, err := w.store.Settle(ctx, ref, admit.Estimate{Nanos: dollar / 2})
	w.must(err)
	_, err = w.store.Release(ctx, held)
	w.must(err)
	if a, deep := w.branch("a"), w.branch("deep"); a.Own != dollar/2 || a.Held != 0 || deep.Own != dollar/2 || deep.Held != 0 {
		t.Errorf("after settle and release: %+v, %+v", a, deep)
	}

	// The root's own limit still comes first, and is no branch's.
	small := branches(sibling)
	small.MaxCost = 1
	w.must(func() error {
		_, err := w.store.StartExecution(ctx, w.tenant, "x", admit.ExecutionLimits{MaxCost: 10 * dollar})
		return err
	}())
	if no = w.refused(w.in(branches(sibling), 8*dollar+1), admit.ExecutionBudgetExceeded, admit.LimitMaxCost); no.ScopeKind != "" || !no.Trips() {
		t.Errorf("refused by the root's limit: %+v", no)
	}
}

// Goal: growth stops at a branch's limit, and in a branch that has outlived its tokens; a plain heartbeat goes on.
func TestBranchGrowth(t *testing.T) {
	w := newWorld(t)
	a := admit.Branch{ID: "a", MaxCost: 5 * dollar}
	w.must(w.store.StartBranch(t.Context(), w.tenant, "x", a, time.Hour))
	ref := w.admit(w.in(branches(a), 2*dollar))
	extend := func(nano money.Nano) ExtendReply {
		t.Helper()
		reply, err := w.store.Extend(t.Context(), ExtendRequest{Ref: ref, Lease: time.Minute, AtLeast: admit.Estimate{Nanos: nano}, Limits: w.limits,
			Branches: []admit.Branch{a}, Calendar: w.calendar()})
		w.must(err)
		return reply
	}
	if r := extend(5 * dollar); r.Stop || w.branch("a").Own != 5*dollar || w.branch("a").Held != 5*dollar {
		t.Errorf("up to the limit: %+v, %+v", r, w.branch("a"))
	}
	if r := extend(5*dollar + 1); !r.Stop || r.Refusal.Code != admit.ExecutionBudgetExceeded || r.Refusal.ScopeID != "a" || r.Refusal.Ceiling != int64(5*dollar) {
		t.Errorf("beyond the limit: %+v", r)
	}
	w.must(w.store.client.Del(t.Context(), key(w.tenant, "x:{a")).Err())
	if r := extend(5*dollar + 1); !r.Stop || r.Refusal.Code != admit.ExecutionBudgetExceeded {
		t.Errorf("in a branch that is gone: %+v", r)
	}
	if r := extend(0); r.Stop {
		t.Errorf("a heartbeat: %+v", r)
	}
}

// Goal: of 50 callers at once, in one call each or in batches, no more come through than the branch's limit lets.
func TestBranchAtOnce(t *testing.T) {
	w := newWorld(t)
	a := admit.Branch{ID: "a", MaxCost: 20 * dollar}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		requests := []Request{w.in(branches(a), dollar), w.in(branches(a), dollar)}
		wg.Go(func() {
			results := w.store.ReserveBatch(t.Context(), requests[i%2:])
			for _, r := range results {
				if r.Err != nil {
					t.Error(r.Err)
				}
				if r.Reply.Verdict == Admitted {
					admitted.Add(1)
				}
			}
			if x, err := w.store.Branch(t.Context(), w.tenant, "a"); err != nil || x.Own > a.MaxCost {
				t.Errorf("%+v, %v", x, err)
			}
		})
	}
	wg.Wait()
	if x := w.branch("a"); admitted.Load() != 20 || x.Own != 20*dollar || x.Held != 20*dollar {
		t.Errorf("%d admitted, %+v", admitted.Load(), x)
	}
}

// Goal: no branch of an ended execution, none before the counters are ready, and no more than the tenant may have; those that
// have ended make room.
func TestStartBranch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	one := admit.Branch{ID: "one", MaxCost: 1}
	w.must(w.store.Revoke(ctx, w.tenant, "ended"))
	if err := w.store.StartBranch(ctx, w.tenant, "ended", one, time.Hour); !errors.Is(err, ErrRevoked) {
		t.Errorf("of an ended execution: %v", err)
	}
	for name, b := range map[string]admit.Branch{"no limit": {ID: "b"}, "beyond a counter": {ID: "b", MaxCost: money.MaxNano + 1}, "a brace": {ID: "{b", MaxCost: 1}, "no id": {MaxCost: 1}} {
		if err := w.store.StartBranch(ctx, w.tenant, "x", b, time.Hour); !errors.Is(err, admit.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	live, ends := make([]redis.Z, MaxBranches), float64(w.clock.now().Add(time.Minute).UnixMilli())
	for i := range live {
		live[i] = redis.Z{Score: ends, Member: fmt.Sprint(i)}
	}
	w.must(w.store.client.ZAdd(ctx, key(w.tenant, "v:x"), live...).Err())
	if err := w.store.StartBranch(ctx, w.tenant, "x", one, time.Hour); !errors.Is(err, ErrBranches) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := w.store.Branch(ctx, w.tenant, "one"); !errors.Is(err, ErrNoExecution) {
		t.Errorf("it was made all the same: %v", err)
	}
	w.clock.advance(time.Minute)
	w.must(w.store.StartBranch(ctx, w.tenant, "x", one, time.Hour))
	if n := w.store.client.ZCard(ctx, key(w.tenant, "v:x")).Val(); n != 1 {
		t.Errorf("%d live", n)
	}
	if ttl := w.store.client.PTTL(ctx, key(w.tenant, "x:{one")).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("it lives %s", ttl)
	}
	if _, err := w.store.CreateTenant(ctx, Tenant{ID: "new", Epoch: testEpoch}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.StartBranch(ctx, Tenant{ID: "new", Epoch: testEpoch}, "x", one, time.Hour); !errors.Is(err, ErrNotReady) {
		t.Errorf("before the counters are ready: %v", err)
	}
}

// Goal: branches come back with the tenant: what the journal says, usage that never asked, and what pending holds hold; from
// then on their limits hold as before, also in a branch that nobody had spent in.
func TestBaseOfBranches(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, deep, unused := admit.Branch{ID: "a", MaxCost: 20 * dollar}, admit.Branch{ID: "deep", MaxCost: 9 * dollar}, admit.Branch{ID: "unused", MaxCost: dollar}
	lost := w.in(branches(a, deep), 5*dollar)
	ref := w.admit(lost)
	pending := w.receipt(lost, ref)
	w.clear()
	_, err := w.store.Pend(ctx, pending)
	w.must(err)
	base := Base{Offset: 9, Executions: []ExecutionTotal{{Root: "x", Own: 8 * dollar, Calls: 4, Version: 8, LastUsed: w.clock.now()},
		{Root: "a", Branch: true, Own: 3 * dollar, External: dollar, Calls: 2, Version: 8, LastUsed: w.clock.now()}},
		External: []ExternalTotal{{Scope: BranchScope, Root: "a", Version: 12, Nanos: 2 * dollar}, {Scope: ExecutionScope, Root: "x", Version: 12, Nanos: 2 * dollar}}}
	for range 2 {
		_, err = w.store.ClearOthers(ctx, w.maker(), alive)
		w.must(err)
		w.load(w.maker(), base)
	}
	pending.Held.Nanos = 6 * dollar // the stream goes on while the journal is applied
	_, err = w.store.Pend(ctx, pending)
	w.must(err)
	entry := JournalEntry{Offset: 9, Kind: Journal, ReservationID: "elsewhere", ReservedAt: w.clock.now(), Day: 20260630, Root: "x",
		Scopes: []ScopeRef{{Scope: window.Scope{Kind: window.Branch, ID: "a"}}}, Actual: admit.Estimate{Nanos: dollar}}
	_, err = w.store.Replay(ctx, w.tenant.ID, w.maker(), []JournalEntry{entry})
	w.must(err)
	w.next()
	if x := w.branch("a"); x.Own != 10*dollar || x.Held != 6*dollar || x.External != 2*dollar || x.Calls != 3 {
		t.Errorf("a: %+v", x)
	}
	if x := w.branch("deep"); x.Own != 6*dollar || x.Held != 6*dollar || x.External != 0 {
		t.Errorf("deep: %+v", x)
	}
	if no := w.refused(w.in(branches(a), 8*dollar+1), admit.ExecutionBudgetExceeded, admit.LimitMaxCost); no.ScopeID != "a" || no.Used != int64(12*dollar) {
		t.Errorf("%+v", no)
	}
	w.admit(w.in(branches(unused), dollar))
	w.admit(w.in(branches(a), dollar))
	if x := w.branch("a"); x.Limits.MaxCost != a.MaxCost { // for whoever looks at it; what decides is the call's own
		t.Errorf("a: %+v", x)
	}
	if live := w.store.client.ZRange(ctx, key(w.tenant, "v:x"), 0, -1).Val(); !slices.Equal(slices.Sorted(slices.Values(live)), []string{"a", "unused"}) {
		t.Errorf("with their first call %q live again", live)
	}
	if ttl := w.store.client.PTTL(ctx, key(w.tenant, "v:x")).Val(); ttl < time.Hour {
		t.Errorf("for %s", ttl)
	}
	if no := w.refused(w.in(branches(unused), 1), admit.ExecutionBudgetExceeded, admit.LimitMaxCost); no.ScopeID != "unused" {
		t.Errorf("%+v", no)
	}
	ref.Tenant = w.tenant
	_, err = w.store.Settle(ctx, ref, admit.Estimate{Nanos: 2 * dollar})
	w.must(err)
	if a, deep := w.branch("a"), w.branch("deep"); a.Own != 7*dollar || a.Held != dollar || deep.Own != 2*dollar || deep.Held != 0 {
		t.Errorf("after the settle: %+v, %+v", a, deep)
	}
}

// Goal: branches and sub-scopes of one call do not get in each other's way: each refuses by its own name, the hold counts in all
// of them, also where names share one, and growth and the end reach all.
func TestBranchBesideScopes(t *testing.T) {
	w := newWorld(t)
	none := admit.NoCeiling()
	up, down := admit.Branch{ID: "up", MaxCost: 9 * dollar}, admit.Branch{ID: "down", MaxCost: 5 * dollar}
	ask := func(nano money.Nano, agent string) Request {
		r := w.in(branches(up, down), nano)
		r.Scopes = []ScopeLimit{{Kind: window.CostCenter, ID: "c", Minute: none, Day: none, Month: admit.Hard(4 * dollar)},
			{Kind: window.Agent, ID: agent, Star: true, Minute: none, Day: admit.Hard(3 * dollar), Month: none}}
		return r
	}
	if no := w.refused(ask(3*dollar+1, "a"), admit.EstimateExceedsLimit, admit.LimitDay); no.ScopeKind != window.Agent || no.ScopeID != "a" {
		t.Errorf("%+v", no)
	}
	for i := range window.MaxEach { // so that the next agent shares a scope
		w.must(w.store.client.ZAdd(t.Context(), key(w.tenant, "v:a"), redis.Z{Score: float64(w.clock.now().Unix()), Member: fmt.Sprint(i)}).Err())
	}
	first := ask(2*dollar, "one-too-many")
	ref := w.admit(first)
	if no := w.refused(ask(2*dollar, "two-too-many"), admit.TenantQuotaExceeded, admit.LimitDay); no.ScopeKind != window.Agent || no.ScopeID != window.OtherScope {
		t.Errorf("%+v", no)
	}
	h, err := w.store.Hold(t.Context(), w.tenant, ref.ID)
	w.must(err)
	if fmt.Sprint(h.Branches, h.Scopes) != "[up down] [{cost_center c} {agent ~}]" || string(h.Context) != string(first.Context) {
		t.Errorf("%+v", h)
	}
	grow := func(nano money.Nano) ExtendReply {
		t.Helper()
		limits := first.Scopes
		limits[1].ID = window.OtherScope
		reply, err := w.store.Extend(t.Context(), ExtendRequest{Ref: ref, Lease: time.Minute, AtLeast: admit.Estimate{Nanos: nano}, Limits: w.limits, Scopes: limits,
			Branches: []admit.Branch{up, down}, Calendar: w.calendar()})
		w.must(err)
		return reply
	}
	if r := grow(6 * dollar); !r.Stop || r.Refusal.ScopeKind != window.Branch || r.Refusal.ScopeID != "down" {
		t.Errorf("%+v", r)
	}
	if r := grow(4 * dollar); !r.Stop || r.Refusal.ScopeKind != window.Agent || r.Refusal.ScopeID != window.OtherScope {
		t.Errorf("%+v", r)
	}
	if r := grow(3 * dollar); r.Stop {
		t.Errorf("%+v", r)
	}
	_, err = w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: dollar})
	w.must(err)
	c, err := w.store.ScopeBudget(t.Context(), w.tenant, window.Scope{Kind: window.CostCenter, ID: "c"}, w.calendar(), w.limits)
	w.must(err)
	if up, down := w.branch("up"), w.branch("down"); up.Own != dollar || down.Own != dollar || down.Held != 0 || c.Month.Own != dollar {
		t.Errorf("%+v, %+v, %+v", up, down, c.Month)
	}
}
