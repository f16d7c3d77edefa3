//go:build integration

package budgetstore

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

func (w *walk) ref(h *modelHold) Ref {
	roots := [...]string{h.root, h.root, "", "another"} // what the caller knows of it changes nothing
	return Ref{Tenant: w.tenant, ID: h.id, ReservedAt: time.UnixMicro(h.at).UTC(), Root: roots[w.r.IntN(len(roots))]}
}

// stepEnd settles, releases or expires a hold, or repeats that for one that has ended.
func (w *walk) stepEnd() {
	h := w.someEnd()
	if h == nil {
		return
	}
	e := w.ending(h)
	got, err := w.store.finish(w.t.Context(), "end", e.ref, e.keeps, e.actual)
	w.must(err)
	w.checkEnd(e, got)
}

// someEnd is a hold, or one that has ended; nil if there is none.
func (w *walk) someEnd() *modelHold {
	if len(w.done) > 0 && w.r.IntN(4) == 0 {
		return pick(w.r, w.done)
	}
	return w.someHold()
}

// walkEnd is what Settle, Release and Expire send.
type walkEnd struct {
	hold   *modelHold
	ref    Ref
	keeps  bool
	actual admit.Estimate
}

func (w *walk) ending(h *modelHold) walkEnd {
	e := walkEnd{hold: h, ref: w.ref(h), actual: w.someEstimate()}
	switch w.r.IntN(4) {
	case 0:
		e.actual = admit.Estimate{}
	case 1:
		e.keeps = true
	}
	return e
}

func (w *walk) checkEnd(e walkEnd, got Ending) {
	w.t.Helper()
	h := e.hold
	open := w.m.holds[h.id]
	if want := open == h; got.Applied != want || want && got.Held != h.held {
		w.t.Fatalf("end of %s: %+v, model has %+v", h.id, got, open)
	}
	if e.keeps {
		e.actual = h.held
	}
	if open == h {
		w.end(h, e.actual)
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
	r := ExtendRequest{Ref: w.ref(h), Lease: lease, Limits: w.limits, Scopes: w.scopeLimits(), Calendar: admit.CalendarAt(time.UnixMicro(now), time.UTC)}
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
	if stop := w.stops(h, r.Scopes, grow, now); got.Stop != stop {
		w.t.Fatalf("extend %s by %+v: %+v, model says stop %v", h.id, grow, got, stop)
	} else if stop {
		w.count["stop"]++
		return
	}
	h.ends = max(h.ends, now+lease.Microseconds())
	if grow != (admit.Estimate{}) {
		w.m.charges = append(w.m.charges, &charge{second: now / 1_000_000, day: h.day, root: h.root, scopes: h.scopes, amount: grow})
		w.m.last = now
		h.held = admit.Estimate{Nanos: h.held.Nanos + grow.Nanos, InputTokens: h.held.InputTokens + grow.InputTokens,
			OutputTokens: h.held.OutputTokens + grow.OutputTokens}
	}
	if got.Held != h.held || got.LeaseUntil.UnixMicro() != h.ends {
		w.t.Fatalf("extend %s: %+v, model %+v", h.id, got, h)
	}
}

// stops reports whether growth does not fit. The day and the month are those of the reservation.
func (w *walk) stops(h *modelHold, limits []ScopeLimit, grow admit.Estimate, now int64) bool {
	x := w.m.execution(h.root)
	if x.Revoked {
		return true
	}
	if grow == (admit.Estimate{}) {
		return false
	}
	full := func(scope string, minute, day, month admit.Ceiling) bool {
		in := calendarMonth(h.day)
		if turned := w.m.turned[scope]; turned > 0 {
			in = last30(turned)
		}
		u := w.m.dollars(scope, now, h.day, in)
		return u.Minute+grow.Nanos > minute.Cap || u.Day+grow.Nanos > day.Cap || u.Month+grow.Nanos > month.Cap
	}
	l := w.limits
	for _, s := range limits {
		if slices.Contains(h.scopes, scopeNameOf(s)) && full(scopeNameOf(s), s.Minute, s.Day, s.Month) {
			w.count["scope stops"]++
			return true
		}
	}
	u := w.m.usage(now, h.day, calendarMonth(h.day), h.root)
	return h.root != "" && x.Spent+grow.Nanos > w.m.root(h.root).limits.MaxCost || full("", l.Minute, l.Day, l.Month) ||
		u.InputTokens+grow.InputTokens > l.InputTokens || u.OutputTokens+grow.OutputTokens > l.OutputTokens
}

func (w *walk) stepDue() {
	now := max(w.clock.us.Load(), w.m.last)
	list, err := w.store.Due(w.t.Context(), w.tenant, 10_000)
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
		ReservedAt: time.UnixMicro(h.at), Day: h.day, Root: h.root, Scopes: refsOf(h.scopes), Actual: w.someEstimate()}
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
		w.m.charges = append(w.m.charges, &charge{second: h.at / 1_000_000, day: e.Day, scopes: h.scopes, requests: 1, amount: e.Actual})
	}
}

func refsOf(names []string) (list []ScopeRef) {
	for _, name := range names {
		kind, id, _ := strings.Cut(name, ":")
		list = append(list, ScopeRef{Scope: window.Scope{Kind: window.ScopeKind(kind), ID: id}, Star: kind == string(window.Agent)})
	}
	return list
}

// stepExternal publishes totals, newer, equal and older versions: of a root, of a minute around now, or of a day of the last
// 31 and its month, of the tenant or of a sub-scope. A month is the sum of its days.
func (w *walk) stepExternal() {
	now := max(w.clock.us.Load(), w.m.last)
	day, _ := w.windows(now)
	if w.r.IntN(4) == 0 {
		w.externalRoot()
		return
	}
	var names []string
	if w.r.IntN(2) == 0 {
		names = namesOf(w.scopeLimits())
	}
	scope := ""
	var sub ScopeRef
	if len(names) > 0 {
		scope, sub = names[0], refsOf(names)[0]
	}
	x := w.m.external(scope)
	total := ExternalTotal{SubScope: sub, Nanos: money.Nano(w.r.IntN(300) - 60)}
	if w.r.IntN(2) == 0 {
		total.Window = now/60_000_000*60 + 60*(w.r.Int64N(5)-1)
		old := x.minutes[total.Window]
		total.Version = old.version + w.r.Int64N(4) - 1
		if old.version == 0 {
			total.Version = 1
		}
		w.external(total.Version > old.version, total)
		if total.Version > old.version {
			x.minutes[total.Window] = versioned{total.Version, total.Nanos}
		}
		return
	}
	label := day
	if w.r.IntN(2) == 0 {
		label = daysBefore(day, w.r.IntN(31))
	}
	old := x.days[label]
	if w.r.IntN(4) == 0 { // again, or what was overtaken
		total.Scope, total.Window, total.Version = DayScope, int64(label), max(old.version-w.r.Int64N(2), 0)
		w.external(false, total)
		return
	}
	x.top++
	x.days[label] = versioned{x.top, total.Nanos}
	sum := versioned{version: x.top}
	for d, v := range x.days {
		if d/100 == label/100 {
			sum.nanos += v.nanos
		}
	}
	x.months[label/100] = sum
	total.Scope, total.Window, total.Version = DayScope, int64(label), x.top
	w.external(true, total, ExternalTotal{Scope: MonthScope, Window: int64(label / 100), Version: x.top, Nanos: sum.nanos, SubScope: sub})
}

func (w *walk) externalRoot() {
	root := w.m.root(pick(w.r, []string{"a", "outside"}))
	name := "a"
	if root == w.m.roots["outside"] {
		name = "outside"
	}
	x := ExternalTotal{Scope: ExecutionScope, Root: name, Version: w.r.Int64N(60) + w.m.offset, Nanos: money.Nano(w.r.IntN(300) - 60)}
	news := x.Version > root.external.version
	w.external(news, x)
	if news {
		root.external = versioned{x.Version, x.Nanos}
	}
}

// external applies totals, of which the first is news or not.
func (w *walk) external(news bool, totals ...ExternalTotal) {
	w.t.Helper()
	taken, err := w.store.ApplyExternal(w.t.Context(), w.tenant, totals)
	w.must(err)
	if news != (taken > 0) {
		w.t.Fatalf("external %+v: %d taken, want %v", totals, taken, news)
	}
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
