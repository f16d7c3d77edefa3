//go:build integration

package budgetstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

// taken fills places of the tenant's executions, for a minute each.
func (w *world) taken(set string, places int) {
	w.t.Helper()
	members, ends := make([]redis.Z, places), float64(w.clock.now().Add(time.Minute).UnixMilli())
	for i := range members {
		members[i] = redis.Z{Score: ends, Member: strconv.Itoa(i)}
	}
	w.must(w.store.client.ZAdd(w.t.Context(), key(w.tenant, set), members...).Err())
}

func (w *world) places(set string) int64 {
	return w.store.client.ZCard(w.t.Context(), key(w.tenant, set)).Val()
}

// roots counts the keys of executions, branches apart.
func (w *world) roots() int {
	w.t.Helper()
	keys, err := w.store.client.Keys(w.t.Context(), key(w.tenant, "x:[^{]*")).Result()
	w.must(err)
	return len(keys)
}

func (w *world) startOf(root string) (ExecutionState, error) {
	return w.store.StartExecution(w.t.Context(), w.tenant, root, admit.ExecutionLimits{MaxCost: 5 * dollar})
}

func (w *world) execution(root string) ExecutionState {
	w.t.Helper()
	x, err := w.store.Execution(w.t.Context(), w.tenant, root)
	w.must(err)
	return x
}

// Goal: no tenant fills Redis by starting executions: above MaxExecutions one more is refused and leaves no key, those that
// are known go on and are resumed, and there is room again when others have ended. Method: all places but one are taken.
func TestExecutionsAreBounded(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.taken("v:r", MaxExecutions-1)
	if _, err := w.startOf("last"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := w.startOf(fmt.Sprint("more-", i)); !errors.Is(err, ErrExecutions) {
			t.Fatalf("one too many: %v", err)
		}
	}
	if err := w.store.RoomFor(ctx, w.tenant, "one-too-many"); !errors.Is(err, ErrExecutions) {
		t.Errorf("room for one too many: %v", err)
	}
	w.must(w.store.RoomFor(ctx, w.tenant, "last"))
	if n := w.roots(); n != 1 || w.places("v:r") != MaxExecutions {
		t.Errorf("%d roots have keys, %d places are taken", n, w.places("v:r"))
	}
	if x, err := w.startOf("last"); err != nil || x.Limits.MaxCost != 5*dollar {
		t.Errorf("resumed: %+v, %v", x, err)
	}
	r := w.request(dollar)
	r.Execution = admit.Execution{Root: "last"}
	w.admit(r)
	w.must(w.store.CloseExecution(ctx, w.tenant, "last"))
	// Redis lost its key, but its token is good: the call counts, and so does the place.
	r = w.request(dollar)
	r.Execution = admit.Execution{Root: "lost"}
	w.admit(r)
	if w.places("v:r") != MaxExecutions+1 {
		t.Errorf("%d places are taken after a call of an execution that was not known", w.places("v:r"))
	}
	w.clock.advance(time.Minute)
	w.must(w.store.RoomFor(ctx, w.tenant, "later"))
	if _, err := w.startOf("later"); err != nil {
		t.Errorf("others have ended: %v", err)
	}
	if w.places("v:r") != 3 || w.roots() != 3 {
		t.Errorf("%d places are taken, %d roots have keys, want last, lost and later", w.places("v:r"), w.roots())
	}
	if ttl := w.store.client.PTTL(ctx, key(w.tenant, "v:r")).Val(); ttl <= 47*time.Hour {
		t.Errorf("the places live %s, executions 48 h", ttl)
	}
}

// Goal: no producer fills Redis with roots that it makes up: above MaxExecutions of them their totals are left out and
// counted, while windows and known executions take theirs; what is left out is made good by the root's next total; they take no
// place of those that are started; and the breaker's word is still taken then, up to twice as many.
func TestTotalsOfUnknownRootsAreBounded(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	var left int64
	w.store.opts.LeftOut = func(n int64) { left += n }
	_, err := w.startOf("known")
	w.must(err)
	w.taken("v:u", MaxExecutions-3)
	totals := []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 9, Nanos: 7}}
	for i := range 500 {
		totals = append(totals, ExternalTotal{Scope: ExecutionScope, Root: fmt.Sprint("made-up-", i), Version: 9, Nanos: 1})
	}
	totals = append(totals, ExternalTotal{Scope: BranchScope, Root: "of-an-ended-token", Version: 9, Nanos: 1}, ExternalTotal{Scope: ExecutionScope, Root: "known", Version: 9, Nanos: 8})
	n, err := w.store.ApplyExternal(ctx, w.tenant, totals)
	if err != nil || n != 5 || left != 498 || w.roots() != 4 {
		t.Errorf("%d totals taken, %d left out, %d roots have keys: %v", n, left, w.roots(), err)
	}
	if x := w.execution("known"); x.External != 8 {
		t.Errorf("known: %+v", x)
	}
	if b := w.budget(); b.Day.External != 7 {
		t.Errorf("the day has %d", b.Day.External)
	}
	x, err := w.startOf("made-up-0") // it was known, with what it had spent; now it gives its place to another
	if err != nil || x.External != 1 {
		t.Errorf("started: %+v, %v", x, err)
	}
	x, err = w.startOf("made-up-400")
	if err != nil || x.External != 0 || w.places("v:u") != MaxExecutions-1 || w.places("v:r") != 3 {
		t.Errorf("started: %+v, %v", x, err)
	}
	_, err = w.store.ApplyExternal(ctx, w.tenant, []ExternalTotal{{Scope: ExecutionScope, Root: "made-up-400", Version: 11, Nanos: 4}})
	w.must(err)
	if x := w.execution("made-up-400"); x.External != 4 {
		t.Errorf("after its next total: %+v", x)
	}
	w.taken("v:u", 2*MaxExecutions-3)
	w.must(w.store.Revoke(ctx, w.tenant, "costly"))
	if x, err := w.startOf("costly"); err != nil || !x.Revoked {
		t.Errorf("%+v, %v", x, err)
	}
	w.taken("v:u", 2*MaxExecutions)
	if err := w.store.Revoke(ctx, w.tenant, "one-too-many"); !errors.Is(err, ErrExecutions) {
		t.Errorf("%v", err)
	}
	w.must(w.store.Revoke(ctx, w.tenant, "known"))
}

// Goal: an execution that is started lives its whole time from then on, also where usage that never asked had made it known.
func TestStartedLateLivesOn(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.store.ApplyExternal(ctx, w.tenant, []ExternalTotal{{Scope: ExecutionScope, Root: "x", Version: 9, Nanos: 3}})
	w.must(err)
	w.must(w.store.client.PExpire(ctx, key(w.tenant, "x:x"), time.Hour).Err())
	_, err = w.startOf("x")
	w.must(err)
	if ttl := w.store.client.PTTL(ctx, key(w.tenant, "x:x")).Val(); ttl <= 47*time.Hour || w.execution("x").External != 3 {
		t.Errorf("it lives %s, %+v", ttl, w.execution("x"))
	}
}

// Goal: a recovery holds to the bound, and brings back what matters: every execution that was reserved in, of the others those
// that were used last. Method: a base with more roots that nobody reserved in than there are places, each used later than
// those that somebody did; made twice, as when its maker is replaced.
func TestBaseHoldsToTheBound(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	var left int64
	w.store.opts.LeftOut = func(n int64) { left += n }
	base := Base{Offset: 9}
	for i := range MaxExecutions + 20 {
		base.Executions = append(base.Executions, ExecutionTotal{Root: fmt.Sprint("e", i), External: 5, Calls: 1, Version: 8, LastUsed: w.clock.now().Add(-time.Duration(i) * time.Second)})
	}
	for i := range 10 {
		base.Executions = append(base.Executions, ExecutionTotal{Root: fmt.Sprint("own", i), Own: money.Nano(i + 1), Calls: 1, Version: 8, LastUsed: w.clock.now().Add(-100 * time.Hour)},
			ExecutionTotal{Root: fmt.Sprint("b", i), Branch: true, Own: 2, Calls: 1, Version: 8, LastUsed: w.clock.now().Add(-100 * time.Hour)})
	}
	slices.Reverse(base.Executions)
	base.External = []ExternalTotal{{Scope: ExecutionScope, Root: "e65555", Version: 12, Nanos: 9}, {Scope: ExecutionScope, Root: "e0", Version: 12, Nanos: 9}}
	w.clear()
	for range 2 {
		left = 0
		_, err := w.store.ClearOthers(ctx, w.maker(), alive)
		w.must(err)
		w.load(w.maker(), base)
		if left != 21 || w.places("v:u") != MaxExecutions || w.places("v:r") != 10 || w.roots() != MaxExecutions+10 {
			t.Fatalf("%d left out, %d and %d places, %d roots have keys", left, w.places("v:u"), w.places("v:r"), w.roots())
		}
	}
	w.next()
	for i := range 10 {
		if x := w.execution(fmt.Sprint("own", i)); x.Own != money.Nano(i+1) {
			t.Errorf("own%d: %+v", i, x)
		}
		if x := w.branch(fmt.Sprint("b", i)); x.Own != 2 {
			t.Errorf("b%d: %+v", i, x)
		}
	}
	if x := w.execution("e0"); x.External != 9 {
		t.Errorf("the latest: %+v", x)
	}
	if _, err := w.store.Execution(ctx, w.tenant, "e65540"); !errors.Is(err, ErrNoExecution) {
		t.Errorf("one of the first: %v", err)
	}
	if _, err := w.startOf("fresh"); err != nil {
		t.Error(err)
	}
}
