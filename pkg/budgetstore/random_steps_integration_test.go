//go:build integration

package budgetstore

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

func (w *walk) ref(h *modelHold) Ref {
	return Ref{Tenant: w.tenant, ID: h.id, ReservedAt: time.UnixMicro(h.at).UTC()}
}

// stepEnd settles, releases or expires a hold, or repeats that for one that has ended.
func (w *walk) stepEnd() {
	h := w.someHold()
	if len(w.done) > 0 && w.r.IntN(4) == 0 {
		h = pick(w.r, w.done)
	}
	if h == nil {
		return
	}
	actual := w.someEstimate()
	var ending Ending
	var err error
	switch w.r.IntN(4) {
	case 0:
		actual = admit.Estimate{}
		ending, err = w.store.Release(w.t.Context(), w.ref(h))
	case 1:
		actual = h.held
		ending, err = w.store.Expire(w.t.Context(), w.ref(h))
	default:
		ending, err = w.store.Settle(w.t.Context(), w.ref(h), actual)
	}
	w.must(err)
	open := w.m.holds[h.id]
	if want := open == h; ending.Applied != want || want && ending.Held != h.held {
		w.t.Fatalf("end of %s: %+v, model has %+v", h.id, ending, open)
	}
	if open == h {
		w.end(h, actual)
	}
}

func (w *walk) end(h *modelHold, actual admit.Estimate) {
	w.m.end(h, actual, w.clock.us.Load())
	w.done = append(w.done, h)
}

func (w *walk) stepExtend() {
	h := w.someHold()
	if h == nil {
		return
	}
	now := w.now()
	lease := time.Duration(1+w.r.IntN(90)) * time.Second
	r := ExtendRequest{Ref: w.ref(h), Lease: lease, Limits: w.limits, Calendar: admit.CalendarAt(time.UnixMicro(now), time.UTC)}
	if w.r.IntN(2) == 0 {
		r.AtLeast = w.someEstimate()
	}
	got, err := w.store.Extend(w.t.Context(), r)
	w.must(err)
	if found := !h.expiring && h.ends > now; got.Found != found {
		w.t.Fatalf("extend %s: %+v, model %+v", h.id, got, h)
	} else if !found {
		return
	}
	grow := admit.Estimate{Nanos: max(0, r.AtLeast.Nanos-h.held.Nanos), InputTokens: max(0, r.AtLeast.InputTokens-h.held.InputTokens),
		OutputTokens: max(0, r.AtLeast.OutputTokens-h.held.OutputTokens)}
	if stop := w.stops(h, grow, now); got.Stop != stop {
		w.t.Fatalf("extend %s by %+v: %+v, model says stop %v", h.id, grow, got, stop)
	} else if stop {
		w.count["stop"]++
		return
	}
	h.ends = max(h.ends, now+lease.Microseconds())
	if grow != (admit.Estimate{}) {
		c := &charge{second: now / 1_000_000, day: h.day, month: h.month, root: h.root, amount: grow}
		w.m.charges = append(w.m.charges, c)
		w.m.last = now
		h.growth = append(h.growth, c)
		h.held = admit.Estimate{Nanos: h.held.Nanos + grow.Nanos, InputTokens: h.held.InputTokens + grow.InputTokens,
			OutputTokens: h.held.OutputTokens + grow.OutputTokens}
	}
	if got.Held != h.held || got.LeaseUntil.UnixMicro() != h.ends {
		w.t.Fatalf("extend %s: %+v, model %+v", h.id, got, h)
	}
}

func (w *walk) stops(h *modelHold, grow admit.Estimate, now int64) bool {
	u := w.m.usage(now, h.day, h.month, h.root)
	if h.root != "" && u.Execution.Revoked {
		return true
	}
	if grow == (admit.Estimate{}) {
		return false
	}
	l := w.limits
	return h.root != "" && u.Execution.Spent+grow.Nanos > w.m.root(h.root).limits.MaxCost || u.Minute+grow.Nanos > l.Minute.Cap ||
		u.Day+grow.Nanos > l.Day.Cap || u.Month+grow.Nanos > l.Month.Cap ||
		u.InputTokens+grow.InputTokens > l.InputTokens || u.OutputTokens+grow.OutputTokens > l.OutputTokens
}

func (w *walk) stepDue() {
	now := max(w.clock.us.Load(), w.m.last)
	list, err := w.store.Due(w.t.Context(), w.tenant, 100)
	w.must(err)
	due := 0
	w.m.sweep(now)
	for _, h := range w.m.holds {
		if h.expiring {
			due++
		}
	}
	for _, got := range list {
		h := w.m.holds[got.ID]
		if h == nil || !h.expiring || got.State != HoldExpiring || got.Held != h.held || got.Answer != h.answer || got.Root != h.root ||
			string(got.Context) != "context of "+h.id {
			w.t.Fatalf("due %+v, model %+v", got, h)
		}
	}
	if len(list) != due {
		w.t.Fatalf("due %d, model %d", len(list), due)
	}
}

// stepJournal plays journal entries: of open holds, of ended ones, of ones that Redis never saw, and again from before.
func (w *walk) stepJournal() {
	h := w.someHold()
	if h == nil || w.r.IntN(2) == 0 {
		if len(w.done) == 0 {
			return
		}
		h = pick(w.r, w.done)
	}
	e := JournalEntry{Offset: w.m.offset + w.r.Int64N(5) - 1, Kind: JournalKind(w.r.IntN(3)), ReservationID: h.id,
		ReservedAt: time.UnixMicro(h.at), Day: h.day, Month: h.month, Root: h.root, Actual: w.someEstimate()}
	open := w.m.holds[h.id] == h
	forgotten := e.Kind == Journal && !open
	if forgotten { // the store never saw this one: a settle that only the journal carries
		e.ReservationID, e.Root = h.id+"-forgotten", ""
	}
	want := 0
	if e.Offset >= w.m.offset && (open || forgotten) {
		want = 1
	}
	changed, err := w.store.ApplyJournal(w.t.Context(), w.tenant, []JournalEntry{e})
	w.must(err)
	if again, err := w.store.ApplyJournal(w.t.Context(), w.tenant, []JournalEntry{e}); err != nil || again != 0 || changed != want {
		w.t.Fatalf("journal %+v changed %d, again %d (%v), want %d and 0", e, changed, again, err, want)
	}
	if e.Offset < w.m.offset {
		return
	}
	w.m.offset = e.Offset + 1
	switch {
	case open && e.Kind == External:
		w.end(h, admit.Estimate{})
	case open:
		w.end(h, e.Actual)
	case forgotten:
		w.m.charges = append(w.m.charges, &charge{second: h.at / 1_000_000, day: e.Day, month: e.Month, requests: 1, amount: e.Actual})
	}
}

// stepExternal publishes totals around now, newer, equal and older versions.
func (w *walk) stepExternal() {
	now := max(w.clock.us.Load(), w.m.last)
	x := ExternalTotal{Scope: Scope(w.r.IntN(4)), Version: w.r.Int64N(60), Nanos: money.Nano(w.r.IntN(300) - 60)}
	day, month := w.labels(now)
	take := func(held versioned) (versioned, bool) {
		if x.Version <= held.version {
			return held, false
		}
		return versioned{x.Version, x.Nanos}, true
	}
	x.Version += w.m.offset
	var want bool
	var apply func()
	switch x.Scope {
	case MinuteScope:
		x.Window = now/60_000_000*60 + 60*(w.r.Int64N(5)-1)
		v, ok := take(w.m.minutes[x.Window])
		want, apply = ok, func() { w.m.minutes[x.Window] = v }
	case DayScope:
		x.Window = int64(day)
		v, ok := take(w.m.days[day])
		want, apply = ok, func() { w.m.days[day] = v }
	case MonthScope:
		x.Window = int64(month)
		v, ok := take(w.m.months[month])
		want, apply = ok, func() { w.m.months[month] = v }
	default:
		x.Root = pick(w.r, []string{"a", "b", "c", "outside"})
		root := w.m.root(x.Root)
		v, ok := take(root.external)
		want, apply = ok, func() { root.external = v }
	}
	taken, err := w.store.ApplyExternal(w.t.Context(), w.tenant, []ExternalTotal{x})
	w.must(err)
	if (taken == 1) != want {
		w.t.Fatalf("external %+v taken %d, want %v", x, taken, want)
	}
	apply()
}

func (w *walk) stepStart() {
	root := w.someRoot()
	if root == "" {
		return
	}
	l := admit.ExecutionLimits{MaxCost: 2000 + money.Nano(w.r.IntN(1000)), MaxDepth: 1 + w.r.Int64N(3), MaxCalls: 20 + w.r.Int64N(20)}
	_, err := w.store.StartExecution(w.t.Context(), w.tenant, root, l)
	w.must(err)
	x := w.m.root(root)
	if x.known {
		l = admit.ExecutionLimits{MaxCost: min(l.MaxCost, x.limits.MaxCost), MaxDepth: min(l.MaxDepth, x.limits.MaxDepth),
			MaxCalls: min(l.MaxCalls, x.limits.MaxCalls)}
	}
	x.known, x.limits = true, l
}
