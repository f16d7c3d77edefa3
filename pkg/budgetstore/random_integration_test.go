//go:build integration

package budgetstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/testkit"
)

// walk is the real store and the model, taken through the same steps.
type walk struct {
	*world
	m     *model
	r     *rand.Rand
	done  []*modelHold // ended ones, for late and repeated messages
	count map[string]int
	kind  walkKind
}

// walkKind is what a walk is about.
type walkKind struct {
	name      string
	rolling   bool // the month is the last 30 days
	switching bool // and now and then the other kind
	scopes    bool
	executed  bool // few open executions; else tight limits
	days      int  // of 1000 ticks, how many are hours or days
}

// TestRandomHistories compares every answer and every counter of the scripts with the model's, over 100,000 random steps:
// orders of all operations, repeats, other contents, clock steps back, midnights, months, and holds that nobody ends.
func TestRandomHistories(t *testing.T) {
	const walks, steps = 10, 2000
	url := testkit.Redis(t)
	kinds := []walkKind{{name: "calendar", days: 4}, {name: "rolling", rolling: true, days: 30}, {name: "scopes", scopes: true, days: 8},
		{name: "switching", rolling: true, switching: true, scopes: true, days: 30}, {name: "executions", executed: true, days: 4}}
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("walks", func(t *testing.T) {
		for seed := range uint64(walks * len(kinds)) {
			kind := kinds[seed%uint64(len(kinds))]
			t.Run(fmt.Sprint(kind.name, seed), func(t *testing.T) {
				t.Parallel()
				w := newWalk(t, url, kind, seed)
				for step := range steps {
					w.step()
					w.compare(step)
				}
				mu.Lock()
				defer mu.Unlock()
				for name, n := range w.count {
					seen[name] += n
				}
			})
		}
	})
	t.Logf("seen: %v", seen)
	for _, name := range []string{"admitted", "replayed", "conflict", "ended", "saving", "stop", "scope refused", "month of 30 days refused",
		"ended together", string(admit.RateLimited), string(admit.TenantQuotaExceeded), string(admit.ToolDeferred), string(admit.ReadOnlyMode),
		string(admit.EstimateExceedsLimit), string(admit.ExecutionBudgetExceeded), string(admit.ExecutionDepthExceeded),
		string(admit.ExecutionRevoked), string(admit.LimitRequests), string(admit.LimitInputTokens), string(admit.LimitOutputTokens),
		string(admit.LimitConcurrency), string(admit.LimitMinute), string(admit.LimitDay), string(admit.LimitMonth),
		string(admit.LimitMaxCalls), string(admit.LimitMaxCost), string(admit.LimitOpenExecutions)} {
		if seen[name] < 10 && !t.Failed() {
			t.Errorf("hardly ever seen: %s", name)
		}
	}
}

func newWalk(t *testing.T, url string, kind walkKind, seed uint64) *walk {
	w := &walk{world: newWorldAt(t, url), m: newModel(), r: rand.New(rand.NewPCG(seed, 1)), count: map[string]int{}, kind: kind}
	w.limits = admit.Limits{Requests: 6, InputTokens: 900, OutputTokens: 900, Concurrency: 7, Minute: admit.Hard(1000),
		Day: admit.Ceiling{Limit: 4000, Cap: 4400}, Month: admit.Hard(30_000), Ladder: ladder.Default()}
	if kind.executed {
		w.limits = admit.Limits{Requests: 1 << 40, InputTokens: 1 << 40, OutputTokens: 1 << 40, Concurrency: 50, OpenExecutions: 2,
			Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling(), Ladder: ladder.Default()}
	}
	w.limits.Rolling30 = kind.rolling
	for _, script := range []*redis.Script{w.store.scripts.reserve, w.store.scripts.batch, w.store.scripts.finish} {
		w.must(script.Load(t.Context(), w.store.client).Err()) // what is sent to a stream by hand has no second try
	}
	return w
}

func (w *walk) step() {
	w.tick()
	if w.kind.switching && w.r.IntN(150) == 0 {
		w.limits.Rolling30 = !w.limits.Rolling30
	}
	switch n := w.r.IntN(1000); {
	case n < 450:
		w.stepReserve()
	case n < 600:
		w.stepEnd()
	case n < 650:
		w.stepTogether()
	case n < 740:
		w.stepExtend()
	case n < 790:
		w.stepDue()
	case n < 880:
		w.stepJournal()
	case n < 970:
		w.stepExternal()
	case n < 997:
		w.stepStart()
	default:
		root := w.someRoot()
		if root != "" {
			w.must(w.store.Revoke(w.t.Context(), w.tenant, root))
			w.m.root(root).revoked, w.m.root(root).open = true, false
		}
	}
}

// tick moves the clock: mostly a little, sometimes past the minute or the day, sometimes back.
func (w *walk) tick() {
	switch n := w.r.IntN(1000); {
	case n < 5:
		w.clock.advance(-time.Duration(w.r.IntN(3_000_000)) * time.Microsecond)
	case n < 5+w.kind.days:
		w.clock.advance(time.Duration(w.r.IntN(40)) * time.Hour)
	case n < 80:
		w.clock.advance(time.Duration(w.r.IntN(130)) * time.Second)
	case n < 90 && w.kind.executed:
		w.clock.advance(time.Duration(w.r.IntN(20)) * time.Minute)
	default:
		w.clock.advance(time.Duration(w.r.IntN(1_500_000)) * time.Microsecond)
	}
}

// now is the store's time: never before the last decision.
func (w *walk) now() int64 { return max(w.clock.us.Load(), w.m.last+1) }

// windows are the day of an instant and the month that counts with it.
func (w *walk) windows(now int64) (int32, month) {
	day := window.DayOf(time.UnixMicro(now), time.UTC)
	if w.limits.Rolling30 {
		return day, last30(day)
	}
	return day, calendarMonth(day)
}

func (w *walk) someRoot() string {
	return pick(w.r, []string{"", "", "a", fmt.Sprintf("x%d", w.ids/20), fmt.Sprintf("y%d", w.ids/60)})
}

// scopeLimits are the sub-scopes of the plan; the agent is one of many.
func (w *walk) scopeLimits() []ScopeLimit {
	if !w.kind.scopes {
		return nil
	}
	all := []ScopeLimit{
		{Kind: window.CostCenter, ID: "rd", Minute: admit.NoCeiling(), Day: admit.Hard(3200), Month: admit.Hard(20_000)},
		{Kind: window.Agent, ID: pick(w.r, []string{"a1", "a2", "a3"}), Star: true, Minute: admit.Hard(500), Day: admit.Hard(1800), Month: admit.Hard(9000)},
		{Kind: window.APIKey, ID: "k", Minute: admit.Hard(900), Day: admit.NoCeiling(), Month: admit.NoCeiling()}}
	return all[w.r.IntN(2) : 1+w.r.IntN(2)+1]
}

func scopeNameOf(s ScopeLimit) string { return string(s.Kind) + ":" + s.ID }

func namesOf(list []ScopeLimit) (names []string) {
	for _, s := range list {
		names = append(names, scopeNameOf(s))
	}
	return names
}

func (w *walk) someHold() *modelHold {
	ids := slices.Sorted(maps.Keys(w.m.holds))
	if len(ids) == 0 {
		return nil
	}
	return w.m.holds[pick(w.r, ids)]
}

func (w *walk) someEstimate() admit.Estimate {
	return admit.Estimate{Nanos: money.Nano(1 + w.r.IntN(260)), InputTokens: w.r.Int64N(200), OutputTokens: w.r.Int64N(200)}
}

// compare reads the tenant's counters back, and some others.
func (w *walk) compare(step int) {
	w.t.Helper()
	now := max(w.clock.us.Load(), w.m.last)
	day, in := w.windows(now)
	u := w.m.usage(now, day, in, "")
	calendar := admit.CalendarAt(time.UnixMicro(now), time.UTC)
	b, err := w.store.Budget(w.t.Context(), w.tenant, calendar, w.limits)
	w.must(err)
	expiring := int64(len(w.m.holds)) - u.Running
	if b.Minute.Used() != u.Minute || b.Day.Used() != u.Day || b.Month.Used() != u.Month || b.Requests != u.Requests ||
		b.InputTokens != u.InputTokens || b.OutputTokens != u.OutputTokens || b.Concurrency != u.Running || b.Expiring != expiring ||
		b.Day.Label != day || b.JournalOffset != w.m.offset {
		w.t.Fatalf("step %d: store %+v\nmodel %+v expiring %d offset %d", step, b, u, expiring, w.m.offset)
	}
	w.compareHeld(step, "", b, day, in)
	for i, s := range w.scopeLimits() {
		if step%5 != i {
			continue
		}
		b, err := w.store.ScopeBudget(w.t.Context(), w.tenant, window.Scope{Kind: s.Kind, ID: s.ID}, calendar, w.limits)
		w.must(err)
		u := w.m.dollars(scopeNameOf(s), b.At.UnixMicro(), day, in) // not held up by what the tenant did elsewhere
		if b.Minute.Used() != u.Minute || b.Day.Used() != u.Day || b.Month.Used() != u.Month {
			w.t.Fatalf("step %d: %s: store %+v\nmodel %+v", step, scopeNameOf(s), b, u)
		}
		w.compareHeld(step, scopeNameOf(s), b, day, in)
	}
	if len(w.m.roots) > 0 && step%3 == 0 {
		w.compareExecution(step, pick(w.r, slices.Sorted(maps.Keys(w.m.roots))))
	}
}

// compareHeld allows held to be too low only after the kind of month has changed.
func (w *walk) compareHeld(step int, scope string, b Budget, day int32, in month) {
	w.t.Helper()
	d, m := w.m.held(scope, day, in)
	if b.Day.Held != d || b.Month.Held > m || b.Month.Held != m && (!w.kind.switching || len(w.m.holds) == 0) {
		w.t.Fatalf("step %d: %q holds %d %d, model %d %d", step, scope, b.Day.Held, b.Month.Held, d, m)
	}
}

func (w *walk) compareExecution(step int, root string) {
	w.t.Helper()
	x, u := w.m.roots[root], w.m.execution(root)
	got, err := w.store.Execution(w.t.Context(), w.tenant, root)
	if *x == (modelRoot{}) && err != nil {
		return
	}
	w.must(err)
	if got.Own+got.External != u.Spent || got.Calls != x.calls || got.Revoked != x.revoked || got.Known != x.known ||
		x.known && got.Limits != x.limits {
		w.t.Fatalf("step %d: execution %s: store %+v, model %+v %+v", step, root, got, u, x)
	}
}
