//go:build integration

package budgetstore

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// turn is a border that ends a day, or a day and a month.
type turn struct {
	zone, at string // the first instant of what follows
	month    bool
}

// Field reports 100, 101, 103, 104 and 106: each kind of sub-scope is used up to its last instant and free at the next one,
// which is the ledger's border too, to the microsecond: in UTC, ahead of it and behind it, on days of 23 and 25 hours, and
// in the months that have them. A hold of before is settled where it was reserved (107); what never asked, too.
func TestScopeTurns(t *testing.T) {
	for _, b := range []turn{
		{"UTC", "2026-05-01T00:00:00Z", true}, {"UTC", "2026-05-02T00:00:00Z", false},
		{"Asia/Kolkata", "2026-04-30T18:30:00Z", true}, {"Asia/Kolkata", "2026-05-01T18:30:00Z", false},
		{"America/Sao_Paulo", "2026-05-01T03:00:00Z", true}, {"America/Sao_Paulo", "2026-05-02T03:00:00Z", false},
		{"Europe/Budapest", "2026-03-29T22:00:00Z", false}, {"Europe/Budapest", "2026-03-31T22:00:00Z", true},
		{"Europe/Budapest", "2026-10-25T23:00:00Z", false}, {"Europe/Budapest", "2026-10-31T23:00:00Z", true},
	} {
		for _, kind := range window.ScopeKinds() {
			t.Run(b.zone+" "+b.at+" "+string(kind), func(t *testing.T) { b.turns(t, kind) })
		}
	}
}

func (b turn) turns(t *testing.T, kind window.ScopeKind) {
	w := newWorld(t)
	loc, err := time.LoadLocation(b.zone)
	w.must(err)
	at, err := time.Parse(time.RFC3339, b.at)
	w.must(err)
	limit := ScopeLimit{Kind: kind, ID: "x", Minute: admit.NoCeiling(), Day: admit.Hard(100), Month: admit.NoCeiling()}
	refuses := admit.LimitDay
	if b.month {
		limit.Day, limit.Month, refuses = admit.NoCeiling(), admit.Hard(100), admit.LimitMonth
	}
	ask := func(now time.Time, nano money.Nano) Request {
		w.clock.us.Store(now.UnixMicro())
		r := w.scoped(nano, limit)
		r.Calendar, r.Lease = admit.CalendarAt(now, loc), time.Hour
		return r
	}
	last := at.Add(-time.Microsecond)
	before, after := window.KeysAt(last, loc), window.KeysAt(at, loc)
	external := func(version int64, nano money.Nano) {
		ref := ScopeRef{Scope: window.Scope{Kind: kind, ID: "x"}}
		_, err := w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{{Scope: DayScope, Window: int64(before.Day), Version: version, Nanos: nano, SubScope: ref},
			{Scope: MonthScope, Window: int64(before.Month), Version: version, Nanos: nano, SubScope: ref}})
		w.must(err)
	}
	ref := w.admit(ask(at.Add(-time.Second), 60))
	external(1, 40)
	refusal := w.refused(ask(last, 1), admit.TenantQuotaExceeded, refuses)
	if !refusal.ResetsAt(loc).Equal(at) || refusal.ScopeKind != kind || refusal.ScopeID != "x" || refusal.Used != 100 {
		t.Errorf("%+v resets at %s", refusal, refusal.ResetsAt(loc))
	}
	reply := w.reserve(ask(at, 100))
	if reply.Verdict != Admitted || reply.Answer.Day != after.Day || reply.Answer.Month != after.Month || after.Day == before.Day || (after.Month != before.Month) != b.month {
		t.Fatalf("%+v in %+v, before %+v", reply, after, before)
	}
	// Late news of the window before, and the end of its hold, are its own.
	external(2, 90)
	_, err = w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 1})
	w.must(err)
	w.refused(ask(at.Add(time.Microsecond), 1), admit.TenantQuotaExceeded, refuses)
	now, err := w.store.ScopeBudget(t.Context(), w.tenant, window.Scope{Kind: kind, ID: "x"}, admit.CalendarAt(at.Add(time.Microsecond), loc), admit.Limits{})
	w.must(err)
	want := WindowUse{Label: after.Day, Own: 100, Held: 100}
	if got := now.Day; got != want {
		t.Errorf("the day after it: %+v, want %+v", got, want)
	}
	if want.Label = after.Month; b.month && now.Month != want {
		t.Errorf("the month after it: %+v, want %+v", now.Month, want)
	}
}
