//go:build integration

package budgetstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/testkit"
)

// walk is the real store and the model, taken through the same steps.
type walk struct {
	*world
	m     *model
	r     *rand.Rand
	done  []*modelHold // ended ones, for late and repeated messages
	count map[string]int
}

// TestRandomHistories compares every answer and every counter of the scripts with the model's, over random orders of all
// operations, repeats, clock steps back, midnights and holds that nobody ends.
func TestRandomHistories(t *testing.T) {
	const seeds, steps = 8, 2000
	url := testkit.Redis(t)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &walk{world: newWorldAt(t, url), m: newModel(), r: rand.New(rand.NewPCG(seed, 1)), count: map[string]int{}}
			w.limits = admit.Limits{Requests: 12, InputTokens: 900, OutputTokens: 900, Concurrency: 7, Minute: admit.Hard(1000),
				Day: admit.Ceiling{Limit: 4000, Cap: 4400}, Month: admit.Hard(30_000), Ladder: ladder.Default()}
			for step := range steps {
				w.step()
				w.compare(step)
				if t.Failed() {
					return
				}
			}
			for _, code := range []string{"admitted", "replayed", "conflict", "ended", "saving", string(admit.RateLimited), string(admit.TenantQuotaExceeded),
				string(admit.ToolDeferred)} {
				if w.count[code] == 0 {
					t.Errorf("never seen: %s (seen: %v)", code, w.count)
				}
			}
		})
	}
}

func (w *walk) step() {
	w.tick()
	switch n := w.r.IntN(100); {
	case n < 45:
		w.stepReserve()
	case n < 62:
		w.stepEnd()
	case n < 72:
		w.stepExtend()
	case n < 77:
		w.stepDue()
	case n < 87:
		w.stepJournal()
	case n < 96:
		w.stepExternal()
	case n < 99:
		w.stepStart()
	default:
		root := w.someRoot()
		if root != "" {
			w.must(w.store.Revoke(w.t.Context(), w.tenant, root))
			w.m.root(root).revoked, w.m.root(root).open = true, false
		}
	}
}

// TestRandomOpenExecutions is the same with few executions allowed at a time, and idle times that close them.
func TestRandomOpenExecutions(t *testing.T) {
	url := testkit.Redis(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &walk{world: newWorldAt(t, url), m: newModel(), r: rand.New(rand.NewPCG(seed, 2)), count: map[string]int{}}
			w.limits = admit.Limits{Requests: 1 << 40, InputTokens: 1 << 40, OutputTokens: 1 << 40, Concurrency: 50, OpenExecutions: 2, Minute: admit.NoCeiling(), Day: admit.NoCeiling(), Month: admit.NoCeiling(),
				Ladder: ladder.Default()}
			for step := range 1500 {
				if w.r.IntN(25) == 0 {
					w.clock.advance(time.Duration(w.r.IntN(20)) * time.Minute)
				}
				w.step()
				w.compare(step)
				if t.Failed() {
					return
				}
			}
			if w.count[string(admit.LimitOpenExecutions)] == 0 || w.count["admitted"] < 100 {
				t.Errorf("seen: %v", w.count)
			}
		})
	}
}

// tick moves the clock: mostly a little, sometimes past the minute or the day, sometimes back.
func (w *walk) tick() {
	switch n := w.r.IntN(1000); {
	case n < 5:
		w.clock.advance(-time.Duration(w.r.IntN(3_000_000)) * time.Microsecond)
	case n < 8:
		w.clock.advance(time.Duration(w.r.IntN(40)) * time.Hour)
	case n < 60:
		w.clock.advance(time.Duration(w.r.IntN(130)) * time.Second)
	default:
		w.clock.advance(time.Duration(w.r.IntN(1_500_000)) * time.Microsecond)
	}
}

// now is the store's time: never before the last decision.
func (w *walk) now() int64 { return max(w.clock.us.Load(), w.m.last+1) }

func (w *walk) labels(now int64) (day, month int32) {
	c := admit.CalendarAt(time.UnixMicro(now), time.UTC).Windows
	day, month = c.Day, c.Month
	if now >= c.DayEnds.UnixMicro() {
		day = c.NextDay
	}
	if now >= c.MonthEnds.UnixMicro() {
		month = c.NextMonth
	}
	return day, month
}

func (w *walk) someRoot() string {
	return pick(w.r, []string{"", "", "a", "b", "c", fmt.Sprintf("x%d", w.ids/20)})
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

func (w *walk) stepReserve() {
	r := w.request(1)
	r.Estimate, r.Lease = w.someEstimate(), time.Duration(1+w.r.IntN(90))*time.Second
	r.Execution = admit.Execution{Root: w.someRoot(), Depth: w.r.Int64N(4),
		ExecutionLimits: admit.ExecutionLimits{MaxCost: 2500, MaxDepth: 2, MaxCalls: 25}}
	if w.r.IntN(50) == 0 {
		r.Estimate.Nanos = 1001
	}
	if w.r.IntN(2) == 0 {
		saving := w.someEstimate()
		r.Saving = &saving
	}
	r.Effect = admit.Effect(w.r.IntN(3) / 2)
	old := w.someHold()
	if len(w.done) > 0 && (old == nil || w.r.IntN(2) == 0) {
		old = pick(w.r, w.done[max(0, len(w.done)-80):])
	}
	if old != nil && w.r.IntN(6) == 0 {
		r.ID, r.Fingerprint, r.Context = old.id, old.print, []byte("context of "+old.id)
		if w.r.IntN(3) == 0 {
			r.Fingerprint[0]++
		}
	}
	now := w.now()
	r.Calendar = admit.CalendarAt(time.UnixMicro(now+int64(w.r.IntN(4_000_001))-2_000_000), time.UTC)
	reply := w.reserve(r)
	w.checkReserve(r, reply, now)
}

func (w *walk) checkReserve(r Request, got Reply, now int64) {
	w.t.Helper()
	want := w.expected(r, now)
	if got.Verdict != want.Verdict {
		w.t.Fatalf("%s: verdict %d %+v, want %d %+v", r.ID, got.Verdict, got.Refusal, want.Verdict, want.Refusal)
	}
	w.count[[]string{"admitted", "replayed", "refused", "conflict", "ended"}[got.Verdict]]++
	switch got.Verdict {
	case Refused:
		g, x := got.Refusal, want.Refusal
		w.count[string(g.Code)]++
		w.count[string(g.Limit)]++
		if g.Code != x.Code || g.Limit != x.Limit || g.Used != x.Used || g.Asked != x.Asked || g.Ceiling != x.Ceiling {
			w.t.Fatalf("%s: refused %+v, want %+v", r.ID, g, x)
		}
	case Replayed, Admitted:
		if got.Answer != want.Answer {
			w.t.Fatalf("%s: answer\n%+v, want\n%+v", r.ID, got.Answer, want.Answer)
		}
	}
}

// expected decides by the model, and charges it.
func (w *walk) expected(r Request, now int64) Reply {
	if h := w.m.holds[r.ID]; h != nil {
		switch {
		case h.print != r.Fingerprint:
			return Reply{Verdict: Conflict}
		case h.expiring || h.ends <= now:
			return Reply{Verdict: Ended}
		default:
			return Reply{Verdict: Replayed, Answer: h.answer}
		}
	}
	if w.m.remembered(r.ID, now) {
		return Reply{Verdict: Ended}
	}
	day, month := w.labels(now)
	x := r.Execution
	root := w.m.roots[x.Root]
	if root != nil && root.known {
		x.ExecutionLimits = root.limits
	}
	u := w.m.usage(now, day, month, x.Root)
	most := r.Limits.OpenExecutions
	r.Limits.OpenExecutions = 0
	v := admit.Decide(r.Limits, r.ask(), x, u)
	r.Limits.OpenExecutions = most
	if opens := most > 0 && x.Root != "" && !u.Execution.Open; opens && v.Code == "" {
		w.m.closeIdle(now) // the script looks at each execution only when another wants to open
		u = w.m.usage(now, day, month, x.Root)
		v = admit.Decide(r.Limits, r.ask(), x, u)
	}
	if v.Limit == admit.LimitConcurrency || v.Code == "" && w.m.notReaped() >= r.Limits.Concurrency {
		w.m.sweep(now) // the script looks at each lease only when the cheap count does not do
	}
	if v.Code != "" {
		return Reply{Verdict: Refused, Refusal: admit.Refusal{Code: v.Code, Limit: v.Limit, Used: v.Used, Asked: v.Asked, Ceiling: v.Ceiling}}
	}
	w.m.last, r.Estimate = now, v.Estimate
	c := &charge{second: now / 1_000_000, day: day, month: month, root: x.Root, requests: 1, amount: r.Estimate}
	w.m.charges = append(w.m.charges, c)
	l := r.Limits
	a := admit.Answer{ReservedAt: time.UnixMicro(now).UTC(), LeaseUntil: time.UnixMicro(now).Add(r.Lease).UTC(), Day: day, Month: month,
		Reserved: r.Estimate, Saving: v.Saving, Rung: v.Rung, RungBefore: w.m.rung, DayUsed: u.Day, DayCeiling: l.Day.Limit,
		Remaining: admit.Remaining{Minute: l.Minute.Limit - u.Minute - r.Estimate.Nanos, Day: l.Day.Limit - u.Day - r.Estimate.Nanos,
			Month: l.Month.Limit - u.Month - r.Estimate.Nanos, Requests: l.Requests - u.Requests - 1,
			InputTokens:  l.InputTokens - u.InputTokens - r.Estimate.InputTokens,
			OutputTokens: l.OutputTokens - u.OutputTokens - r.Estimate.OutputTokens}}
	a.Remaining.Concurrency = l.Concurrency - w.m.notReaped() - 1
	a.Execution.Depth = x.Depth
	w.m.rung = v.Rung
	if v.Saving {
		w.count["saving"]++
	}
	if x.Root != "" {
		root = w.m.root(x.Root)
		root.known, root.limits = true, x.ExecutionLimits
		root.calls++
		root.used, root.open = now, root.open || most > 0
		a.Execution.Spent, a.Execution.Calls = u.Execution.Spent+r.Estimate.Nanos, root.calls
		if x.MaxCost > 0 {
			a.Execution.Limited, a.Execution.Remaining = true, x.MaxCost-a.Execution.Spent
		}
	}
	w.m.holds[r.ID] = &modelHold{id: r.ID, root: x.Root, print: r.Fingerprint, at: now, ends: now + r.Lease.Microseconds(), held: r.Estimate,
		first: c, day: day, month: month, answer: a}
	return Reply{Verdict: Admitted, Answer: a}
}

// compare reads every counter back.
func (w *walk) compare(step int) {
	w.t.Helper()
	now := max(w.clock.us.Load(), w.m.last)
	day, month := w.labels(now)
	u := w.m.usage(now, day, month, "")
	calendar := admit.CalendarAt(time.UnixMicro(now), time.UTC)
	b, err := w.store.Budget(w.t.Context(), w.tenant, calendar, w.limits.Rolling30)
	w.must(err)
	dayHeld, monthHeld := w.m.held(day, month)
	expiring := int64(len(w.m.holds)) - u.Running
	if b.Minute.Used() != u.Minute || b.Day.Used() != u.Day || b.Month.Used() != u.Month || b.Requests != u.Requests ||
		b.InputTokens != u.InputTokens || b.OutputTokens != u.OutputTokens || b.Concurrency != u.Running || b.Expiring != expiring ||
		b.Day.Held != dayHeld || b.Month.Held != monthHeld || b.Day.Label != day || b.JournalOffset != w.m.offset {
		w.t.Fatalf("step %d: store %+v\nmodel %+v expiring %d held %d %d offset %d", step, b, u, expiring, dayHeld, monthHeld, w.m.offset)
	}
	for root, x := range w.m.roots {
		u := w.m.usage(now, day, month, root)
		got, err := w.store.Execution(w.t.Context(), w.tenant, root)
		if errors.Is(err, ErrNoExecution) && *x == (modelRoot{}) {
			continue
		}
		w.must(err)
		if got.Own+got.External != u.Execution.Spent || got.Calls != x.calls || got.Revoked != x.revoked || got.Known != x.known ||
			x.known && got.Limits != x.limits {
			w.t.Fatalf("step %d: execution %s: store %+v, model %+v %+v", step, root, got, u.Execution, x)
		}
	}
}
