//go:build integration

package budgetstore

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

const day = 24 * time.Hour

// Goal: what was used on a day counts in the last 30 until the 31st day after it begins, and a refusal says which day frees
// enough; a late settle of an earlier day and late external usage count at once.
func TestLast30Days(t *testing.T) {
	w := newWorld(t) // Tuesday 30 June, 23:58:20
	w.limits.Rolling30, w.limits.Month = true, admit.Hard(100)
	r := w.request(40)
	r.Lease = 90 * time.Minute
	ref := w.admit(r)
	w.clock.advance(time.Hour) // 1 July
	w.admit(w.request(50))
	refusal := w.refused(w.request(60), admit.TenantQuotaExceeded, admit.LimitMonth)
	if want := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC); refusal.Window != 20260701 || !refusal.ResetsAt(time.UTC).Equal(want) || refusal.Used != 90 {
		t.Errorf("%+v resets at %s", refusal, refusal.ResetsAt(time.UTC))
	}
	if refusal = w.refused(w.request(11), admit.TenantQuotaExceeded, admit.LimitMonth); refusal.Window != 20260630 || !refusal.ResetsAt(time.UTC).Equal(time.Date(2026, 7, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v resets at %s", refusal, refusal.ResetsAt(time.UTC))
	}
	stop, err := w.store.Extend(t.Context(), ExtendRequest{Ref: ref, Lease: time.Hour, AtLeast: admit.Estimate{Nanos: 51}, Limits: w.limits, Calendar: w.calendar()})
	if err != nil || !stop.Stop || stop.Refusal.Limit != admit.LimitMonth || stop.Refusal.Window != 20260630 || stop.Refusal.Asked != 11 {
		t.Errorf("growth: %+v, %v", stop, err)
	}
	_, err = w.store.Settle(t.Context(), ref, admit.Estimate{Nanos: 20})
	w.must(err)
	_, err = w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{{Scope: DayScope, Window: 20260615, Version: 9, Nanos: 25}, {Scope: MonthScope, Window: 202606, Version: 9, Nanos: 25}})
	w.must(err)
	if b := w.budget(); b.Month != (WindowUse{Label: 202607, Own: 70, Held: 50, External: 25}) {
		t.Errorf("%+v", b.Month)
	}
	w.refused(w.request(6), admit.TenantQuotaExceeded, admit.LimitMonth)
	// 15 July: the 15th of June is the 30th day before. 16 July: it has left.
	w.clock.advance(14 * day)
	w.refused(w.request(6), admit.TenantQuotaExceeded, admit.LimitMonth)
	w.clock.advance(day)
	w.admit(w.request(6))
	w.clock.advance(14 * day) // 30 July, with 30 June
	w.refused(w.request(25), admit.TenantQuotaExceeded, admit.LimitMonth)
	w.clock.advance(day) // 31 July, without
	w.admit(w.request(25))
	if b := w.budget(); b.Month.Own != 50+6+25 {
		t.Errorf("%+v", b.Month)
	}
}

// Goal: what is read of the last 30 days says which day leaves next with something of use: the oldest that was used, or, where
// the ceiling is used up, the one with which a call may fit again; none where nothing is used.
func TestTheDayThatLeaves(t *testing.T) {
	w := newWorld(t) // Tuesday 30 June
	w.limits.Rolling30, w.limits.Month = true, admit.Hard(100)
	leaves := func(what string, want int32) {
		t.Helper()
		if b := w.budget(); b.Leaves != want {
			t.Errorf("%s: %d, want %d: %+v", what, b.Leaves, want, b.Month)
		}
	}
	leaves("nothing used", 0)
	w.admit(w.request(40))
	leaves("today alone", 20260630)
	totals := func(nano ...money.Nano) {
		t.Helper()
		var all []ExternalTotal
		for i, n := range nano {
			all = append(all, ExternalTotal{Scope: DayScope, Window: []int64{20260530, 20260610, 20260615}[i], Version: int64(n) + 1, Nanos: n})
		}
		_, err := w.store.ApplyExternal(t.Context(), w.tenant, all)
		w.must(err)
	}
	totals(9, 20, 30)
	leaves("99 of 100: the 30th of May is 31 days ago", 20260610)
	totals(9, 20, 40)
	leaves("100 of 100: the first one is enough", 20260610)
	totals(9, 20, 61)
	leaves("121 of 100: the first one is not", 20260615)
	b, err := w.store.Budget(t.Context(), w.tenant, w.calendar(), admit.Limits{Month: admit.Hard(100)})
	if err != nil || b.Leaves != 0 {
		t.Errorf("of a calendar month: %+v, %v", b, err)
	}
	w.clock.advance(13 * day) // 13 July: the 10th of June has left
	leaves("101 of 100", 20260615)
	w.clock.advance(20 * day)
	leaves("nothing used any more", 0)
}

// Goal: a plan that changes its kind of month takes the same usage along, in both directions.
func TestMonthChangesItsKind(t *testing.T) {
	w := newWorld(t)
	w.clock.us.Store(time.Date(2026, 6, 20, 12, 0, 0, 0, time.UTC).UnixMicro())
	spend := func(nano money.Nano) {
		t.Helper()
		_, err := w.store.Settle(t.Context(), w.admit(w.request(nano)), admit.Estimate{Nanos: nano})
		w.must(err)
	}
	month := func(rolling bool) money.Nano {
		t.Helper()
		w.limits.Rolling30 = rolling
		return w.budget().Month.Own
	}
	spend(1)
	w.clock.advance(11 * day) // 1 July
	spend(10)
	if month(false) != 10 || month(true) != 11 {
		t.Errorf("calendar %d, rolling %d", month(false), month(true))
	}
	spend(100) // turns
	w.clock.advance(19 * day)
	spend(1000) // 20 July
	if month(false) != 1110 || month(true) != 1111 {
		t.Errorf("calendar %d, rolling %d", month(false), month(true))
	}
	w.limits.Rolling30 = false
	spend(10_000) // turns back
	if month(false) != 11_110 || month(true) != 11_111 {
		t.Errorf("calendar %d, rolling %d", month(false), month(true))
	}
	w.clock.advance(day)
	if month(true) != 11_110 {
		t.Errorf("21 July: rolling %d", month(true))
	}
}

// Goal: an ended hold of the store's own day names, of whatever zone, is charged to its day: half-hour zones, changed clocks.
func TestLast30DaysInZones(t *testing.T) {
	w := newWorld(t)
	w.limits.Rolling30, w.limits.Month = true, admit.Hard(100)
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	w.must(err)
	at := func(s string) {
		t.Helper()
		now, err := time.ParseInLocation("2006-01-02 15:04", s, kolkata)
		w.must(err)
		w.clock.us.Store(now.UnixMicro())
	}
	ask := func() Request {
		r := w.request(100)
		r.Calendar = admit.CalendarAt(w.clock.now(), kolkata)
		return r
	}
	at("2026-12-31 23:59")
	w.admit(ask())
	at("2027-01-30 23:59")
	refusal := w.refused(ask(), admit.TenantQuotaExceeded, admit.LimitMonth)
	if refusal.Window != 20261231 || !refusal.ResetsAt(kolkata).Equal(window.DayBounds(20270131, kolkata).Start) {
		t.Errorf("%+v resets at %s", refusal, refusal.ResetsAt(kolkata))
	}
	at("2027-01-31 00:00")
	w.admit(ask())
}

// Goal: usage that claims a time to come, by a wrong clock or on purpose, takes the place of no window that counts now: no day of
// the last 30, no month and no minute. Method: totals of a year of days, of months and of minutes ahead, between two days.
func TestTimesToCome(t *testing.T) {
	for _, rolling := range []bool{true, false} {
		w := newWorld(t)
		w.limits.Rolling30 = rolling
		w.clock.advance(24 * time.Hour) // 1 July
		w.admit(w.request(7))
		w.clock.advance(24 * time.Hour)
		var ahead []ExternalTotal
		for n := range 400 {
			at := w.clock.now().AddDate(0, 0, 4+n)
			ahead = append(ahead, ExternalTotal{Scope: DayScope, Window: int64(window.DayOf(at, time.UTC)), Version: 9, Nanos: 1000},
				ExternalTotal{Scope: MonthScope, Window: int64(window.DayOf(at.AddDate(0, 1, 0), time.UTC) / 100), Version: int64(n), Nanos: 1000},
				ExternalTotal{Scope: MinuteScope, Window: at.Unix()/60*60 + int64(n)*60, Version: 9, Nanos: 1000})
		}
		taken, err := w.store.ApplyExternal(t.Context(), w.tenant, ahead)
		if err != nil || taken != 0 {
			t.Errorf("%d totals of times to come are taken: %v", taken, err)
		}
		now := w.clock.now()
		taken, err = w.store.ApplyExternal(t.Context(), w.tenant, []ExternalTotal{{Scope: DayScope, Window: int64(window.DayOf(now, time.UTC)), Version: 3, Nanos: 5},
			{Scope: MonthScope, Window: 202607, Version: 3, Nanos: 5}, {Scope: MinuteScope, Window: now.Unix() / 60 * 60, Version: 3, Nanos: 5}})
		if b := w.budget(); err != nil || taken != 3 || b.Minute.External != 5 {
			t.Errorf("%d of the totals of now are taken, %+v: %v", taken, b, err)
		}
		w.admit(w.request(2))
		w.clock.advance(24 * time.Hour)
		w.admit(w.request(1))
		if b := w.budget(); b.Month.Own != 10 || b.Month.External != 5 {
			t.Errorf("the month is %+v, with the last 30 days %v", b.Month, rolling)
		}
	}
}
