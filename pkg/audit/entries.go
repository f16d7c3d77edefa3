package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// checkEntries recomputes every entry's money from its own lines (I5) and its window keys from its time, and holds it
// against the catalogs.
func checkEntries(j *journal, book catalogs, r *Report) {
	raw, billed, names := money.USD{}, money.USD{}, namesSeen{}
	for _, e := range j.entries {
		c, known := book.tenants[e.GetTenantId()]
		if !known {
			r.differ("journal", e.GetId(), "a tenant of the catalog", e.GetTenantId())
			continue
		}
		checkKeys(e, c.zoneOf(e), r)
		checkScopes(e, c, names, j, r)
		if percent := plain(orZero(e.GetMarkupPercent())); !c.hasMarkup(percent) {
			r.differ("journal", e.GetId()+" markup_percent", "one of the tenant's contracts", percent)
		}
		reversal := e.GetKind() == weirv1.EntryKind_ENTRY_KIND_REVERSAL
		if reversal {
			checkReversal(e, j, r)
		}
		if e.RawCostUsd == nil {
			if !reversal {
				want := int64(0)
				if e.GetOwnNanos() == 0 {
					want = e.GetHeldNanos() // what was held stays charged until there is a price
				}
				same(r, "journal", e.GetId()+" (unpriced) external nano-dollars", want, e.GetExternalNanos())
			}
			continue
		}
		if v := e.GetPriceVersion(); v != "" && !book.prices[v] || v == "" && len(e.GetLines()) > 0 {
			r.differ("journal", e.GetId()+" price_version", "one of the price book", v)
		}
		sums, err := recompute(e)
		if err != nil {
			r.differ("journal", e.GetId(), "quantity x rate, with the markup", err.Error())
			continue
		}
		same(r, "journal", e.GetId()+" raw cost", sums.raw.String(), e.GetRawCostUsd())
		same(r, "journal", e.GetId()+" billed cost", sums.billed.String(), e.GetBilledCostUsd())
		if !reversal { // a reversal is the negative of what it reverses, the rounding included
			checkNanos(e, sums, r)
		}
		raw, billed = raw.Add(sums.raw), billed.Add(sums.billed)
	}
	r.RawCostUSD, r.BilledUSD = raw.String(), billed.String()
}

// sums are an entry's totals, recomputed.
type sums struct{ raw, billed money.USD }

// recompute multiplies and adds the lines; it fails on the first figure that cannot be read.
func recompute(e entry) (sums, error) {
	var s sums
	markup, err := money.ParsePercent(orZero(e.GetMarkupPercent()))
	if err != nil {
		return s, fmt.Errorf("markup: %w", err)
	}
	for _, l := range e.GetLines() {
		quantity, err := money.ParseDecimal(l.GetQuantity())
		if err != nil {
			return s, fmt.Errorf("%s quantity: %w", l.GetMeter(), err)
		}
		rate, err := money.ParseDecimal(l.GetRateUsd())
		if err != nil {
			return s, fmt.Errorf("%s rate: %w", l.GetMeter(), err)
		}
		cost := money.Price(quantity, rate)
		if cost.String() != l.GetRawCostUsd() {
			return s, fmt.Errorf("%s: %s x %s is %s, not %s", l.GetMeter(), quantity, rate, cost, l.GetRawCostUsd())
		}
		marked := money.ApplyMarkup(cost, markup)
		if marked.String() != l.GetBilledCostUsd() {
			return s, fmt.Errorf("%s: %s with %s %% is %s, not %s", l.GetMeter(), cost, markup, marked, l.GetBilledCostUsd())
		}
		s.raw, s.billed = s.raw.Add(cost), s.billed.Add(marked)
	}
	return s, nil
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// checkNanos holds own + external against the counted cost, raw or billed as the plan said: an amount beyond a counter's bound is not
// the one that it counts.
func checkNanos(e entry, s sums, r *Report) {
	got := e.GetOwnNanos() + e.GetExternalNanos()
	var either []string
	for _, cost := range []struct {
		name string
		usd  money.USD
	}{{"raw", s.raw}, {"billed", s.billed}} {
		nanos, err := money.CeilNano(cost.usd)
		if err == nil && got == int64(nanos) {
			return
		}
		figure := fmt.Sprintf("%s %d", cost.name, nanos)
		if err != nil {
			figure = cost.name + " beyond a counter's bound"
		}
		either = append(either, figure)
	}
	r.differ("journal", e.GetId()+" own + external nano-dollars", strings.Join(either, " or "), fmt.Sprint(got))
}

// checkReversal wants the exact negative of an earlier entry.
func checkReversal(e entry, j *journal, r *Report) {
	n, ok := j.byID[e.GetReversesId()]
	if !ok {
		r.differ("journal", e.GetId(), "an entry that it reverses", e.GetReversesId())
		return
	}
	o := j.entries[n]
	same(r, "journal", e.GetId()+" tenant", o.GetTenantId(), e.GetTenantId())
	same(r, "journal", e.GetId()+" input tokens", -o.GetInputTokens(), e.GetInputTokens())
	same(r, "journal", e.GetId()+" output tokens", -o.GetOutputTokens(), e.GetOutputTokens())
	same(r, "journal", e.GetId()+" own nano-dollars", 0, e.GetOwnNanos())
	same(r, "journal", e.GetId()+" external nano-dollars", -(o.GetOwnNanos() + o.GetExternalNanos()), e.GetExternalNanos())
	same(r, "journal", e.GetId()+" raw cost", negated(o.RawCostUsd), deref(e.RawCostUsd))
	same(r, "journal", e.GetId()+" billed cost", negated(o.BilledCostUsd), deref(e.BilledCostUsd))
	same(r, "journal", e.GetId()+" lines", negatedLines(o), linesText(e))
	if !slices.Equal(keys(e, time.UTC), keys(o, time.UTC)) {
		r.differ("journal", e.GetId(), "the windows of the entry that it reverses", "others")
	}
}

func linesText(e entry) string {
	var b strings.Builder
	for _, l := range e.GetLines() {
		fmt.Fprintf(&b, "%s %s x %s = %s; ", l.GetMeter(), plain(l.GetQuantity()), plain(l.GetRateUsd()), plain(l.GetRawCostUsd()))
	}
	return b.String()
}

func negatedLines(e entry) string {
	var b strings.Builder
	for _, l := range e.GetLines() {
		quantity, cost := l.GetQuantity(), l.GetRawCostUsd()
		if cost != "" {
			cost = negated(&cost)
		}
		fmt.Fprintf(&b, "%s %s x %s = %s; ", l.GetMeter(), negated(&quantity), plain(l.GetRateUsd()), cost)
	}
	return b.String()
}

func negated(s *string) string {
	if s == nil {
		return ""
	}
	usd, err := money.ParseUSD(*s)
	if err != nil {
		return "unreadable " + *s
	}
	return usd.Neg().String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// keys computes the minute, hour, day and month of an entry from its time, without the window code.
func keys(e entry, zone *time.Location) []int64 {
	at := e.GetEventTime().AsTime()
	unix := at.Unix()
	day, month := labels(at, zone)
	return []int64{unix - mod(unix, 60), unix - mod(unix, 3600), day, month}
}

// labels are the day YYYYMMDD and the month YYYYMM of a time.
func labels(at time.Time, zone *time.Location) (day, month int64) {
	local := at.In(zone)
	month = int64(local.Year()*100 + int(local.Month()))
	return month*100 + int64(local.Day()), month
}

// zoneOf is the zone that an entry's day is of: of the contract at its time or, where whoever named the day did not know that
// yet, of another one of the tenant's.
func (c contracts) zoneOf(e entry) *time.Location {
	of := c.at(e.GetEventTime().AsTime())
	for _, v := range append(contracts{{zone: of}}, c...) {
		if keys(e, v.zone)[2] == int64(e.GetWindows().GetDay()) {
			return v.zone
		}
	}
	return of
}

// mod is never negative, so that instants before 1970 round down as well.
func mod(a, b int64) int64 { return ((a % b) + b) % b }

func checkKeys(e entry, zone *time.Location, r *Report) {
	want := keys(e, zone)
	w := e.GetWindows()
	for i, got := range []int64{w.GetMinute(), w.GetHour(), int64(w.GetDay()), int64(w.GetMonth())} {
		same(r, "journal", e.GetId()+" "+[]string{"minute", "hour", "day", "month"}[i], want[i], got)
	}
}
