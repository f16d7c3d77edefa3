//go:build integration

package budgetstore

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// stepReserve asks for one reservation, or for several in one batch.
func (w *walk) stepReserve() {
	if w.r.IntN(6) > 0 {
		r := w.someRequest()
		now := w.now()
		w.checkReserve(r, w.reserve(r), now)
		return
	}
	batch := make([]Request, 2+w.r.IntN(3))
	for i := range batch {
		batch[i] = w.someRequest()
	}
	for i, result := range w.store.ReserveBatch(w.t.Context(), batch) {
		w.must(result.Err)
		w.checkReserve(batch[i], result.Reply, w.now())
	}
}

func (w *walk) someRequest() Request {
	r := w.request(1)
	r.Estimate, r.Lease = w.someEstimate(), time.Duration(1+w.r.IntN(90))*time.Second
	r.Execution = admit.Execution{Root: w.someRoot(), Depth: w.r.Int64N(25) / 8,
		ExecutionLimits: admit.ExecutionLimits{MaxCost: 2500, MaxDepth: 2, MaxCalls: 25}}
	r.Scopes = w.scopeLimits()
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
	r.Calendar = admit.CalendarAt(time.UnixMicro(w.now()+int64(w.r.IntN(3_999_990))-1_999_990), time.UTC)
	return r
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
		if g.ScopeID != "" {
			w.count["scope refused"]++
		}
		if g.Limit == admit.LimitMonth && r.Limits.Rolling30 {
			w.count["month of 30 days refused"]++
		}
		x.At, x.FreesAt, x.Window, x.DayUsed = g.At, g.FreesAt, g.Window, g.DayUsed
		if g != x {
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
	day, in := w.windows(now)
	w.turn("", day)
	x := r.Execution
	root := w.m.roots[x.Root]
	if root != nil && root.known {
		x.ExecutionLimits = root.limits
	}
	v, u := w.decide(r, x, now, day, in)
	if v.Limit == admit.LimitConcurrency || v.Code == "" && w.m.notReaped() >= r.Limits.Concurrency {
		w.m.sweep(now) // the script looks at each lease only when the cheap count does not do
	}
	if v.Code != "" {
		return Reply{Verdict: Refused, Refusal: admit.Refusal{Code: v.Code, Limit: v.Limit, Used: v.Used, Asked: v.Asked, Ceiling: v.Ceiling,
			ScopeKind: v.ScopeKind, ScopeID: v.ScopeID}}
	}
	w.count["saving"] += map[bool]int{true: 1}[v.Saving]
	return Reply{Verdict: Admitted, Answer: w.admitted(r, x, v, u, now, day)}
}

// turn notes which day the last 30 of a state were last looked at for.
func (w *walk) turn(scope string, day int32) {
	if w.m.turned[scope] = 0; w.limits.Rolling30 {
		w.m.turned[scope] = day
	}
}

func (w *walk) decide(r Request, x admit.Execution, now int64, day int32, in month) (admit.Verdict, admit.Usage) {
	usage := func() admit.Usage {
		u := w.m.usage(now, day, in, x.Root)
		for _, name := range namesOf(r.Scopes) {
			u.Scopes = append(u.Scopes, w.m.dollars(name, now, day, in))
		}
		return u
	}
	u := usage()
	l := r.Limits
	l.OpenExecutions = 0
	v := admit.Decide(l, r.ask(), x, u)
	if most := r.Limits.OpenExecutions; most > 0 && x.Root != "" && !u.Execution.Open && v.Code == "" {
		w.m.closeIdle(now) // the script looks at each execution only when another wants to open
		u = usage()
		v = admit.Decide(r.Limits, r.ask(), x, u)
	}
	return v, u
}

// admitted charges the model, and returns what the caller is told.
func (w *walk) admitted(r Request, x admit.Execution, v admit.Verdict, u admit.Usage, now int64, day int32) admit.Answer {
	e, l, scopes := v.Estimate, r.Limits, namesOf(r.Scopes)
	c := &charge{second: now / 1_000_000, day: day, root: x.Root, scopes: scopes, requests: 1, amount: e}
	a := admit.Answer{ReservedAt: time.UnixMicro(now).UTC(), LeaseUntil: time.UnixMicro(now).Add(r.Lease).UTC(), Day: day, Month: day / 100,
		Reserved: e, Saving: v.Saving, Rung: v.Rung, RungBefore: w.m.rung, DayUsed: u.Day, DayCeiling: l.Day.Limit,
		Remaining: admit.Remaining{Minute: l.Minute.Limit - u.Minute - e.Nanos, Day: l.Day.Limit - u.Day - e.Nanos,
			Month: l.Month.Limit - u.Month - e.Nanos, Requests: l.Requests - u.Requests - 1,
			InputTokens: l.InputTokens - u.InputTokens - e.InputTokens, OutputTokens: l.OutputTokens - u.OutputTokens - e.OutputTokens,
			Concurrency: l.Concurrency - w.m.notReaped() - 1}}
	a.Execution.Depth = x.Depth
	if x.Root != "" {
		root := w.m.root(x.Root)
		root.known, root.limits = true, x.ExecutionLimits
		root.calls++
		root.used, root.open = now, root.open || l.OpenExecutions > 0
		a.Execution.Spent, a.Execution.Calls = u.Execution.Spent+e.Nanos, root.calls
		if x.MaxCost > 0 {
			a.Execution.Limited, a.Execution.Remaining = true, x.MaxCost-a.Execution.Spent
		}
	}
	w.m.last, w.m.rung = now, v.Rung
	w.m.charges = append(w.m.charges, c)
	for _, name := range scopes {
		w.turn(name, day)
	}
	w.m.holds[r.ID] = &modelHold{id: r.ID, root: x.Root, scopes: scopes, print: r.Fingerprint, at: now, ends: now + r.Lease.Microseconds(),
		held: e, first: c, day: day, answer: a}
	return a
}
