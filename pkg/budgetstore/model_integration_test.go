//go:build integration

package budgetstore

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// model is the same tenant as plain lists: every charge ever made, summed anew for each question. It knows nothing of
// rings, packed bytes, days or keys.
type model struct {
	last    int64       // µs of the last admitted decision
	rung    ladder.Rung // that it was told
	holds   map[string]*modelHold
	charges []*charge
	ended   []endedID
	outside map[string]*external // by sub-scope, "" for the tenant
	// turned is the day for which the last 30 were last looked at, of each sub-scope; 0: a calendar month was.
	turned map[string]int32
	roots  map[string]*modelRoot
	offset int64
}

// charge is one amount in the sliding minute, the day and the month.
type charge struct {
	second   int64
	day      int32
	root     string
	scopes   []string
	requests int64
	amount   admit.Estimate
}

// external is what never asked.
type external struct {
	minutes      map[int64]versioned
	days, months map[int32]versioned
	top          int64 // the highest version taken
}

type modelHold struct {
	id, root string
	scopes   []string
	print    admit.Fingerprint
	at, ends int64
	expiring bool
	held     admit.Estimate
	first    *charge // at the second of the reservation; growth is at others
	day      int32
	answer   admit.Answer
}

type endedID struct {
	id    string
	until int64 // s
}

type versioned struct {
	version int64
	nanos   money.Nano
}

type modelRoot struct {
	limits   admit.ExecutionLimits
	known    bool
	revoked  bool
	calls    int64
	external versioned
	open     bool  // counts against the limit of open executions
	used     int64 // µs
}

func newModel() *model {
	return &model{holds: map[string]*modelHold{}, outside: map[string]*external{}, turned: map[string]int32{}, roots: map[string]*modelRoot{}}
}

func (m *model) external(scope string) *external {
	if m.outside[scope] == nil {
		m.outside[scope] = &external{minutes: map[int64]versioned{}, days: map[int32]versioned{}, months: map[int32]versioned{}}
	}
	return m.outside[scope]
}

// month is which days count in a month: those of a calendar month, or the 30 before a day and all from it on.
type month struct {
	calendar int32
	from     int32
}

func calendarMonth(day int32) month { return month{calendar: day / 100} }

func last30(day int32) month { return month{from: daysBefore(day, 30)} }

func (m month) has(day int32) bool { return m.calendar == day/100 || m.from > 0 && day >= m.from }

func daysBefore(day int32, n int) int32 {
	y, mo, d := time.Date(int(day/10000), time.Month(day/100%100), int(day%100), 0, 0, 0, 0, time.UTC).AddDate(0, 0, -n).Date()
	return int32(y*10000 + int(mo)*100 + d)
}

// dollars are the windows of the tenant ("") or of a sub-scope.
func (m *model) dollars(scope string, now int64, day int32, in month) admit.ScopeUsage {
	var u admit.ScopeUsage
	second := now / 1_000_000
	for _, c := range m.charges {
		if scope != "" && !slices.Contains(c.scopes, scope) {
			continue
		}
		if c.second >= second-60 {
			u.Minute += c.amount.Nanos
		}
		if c.day == day {
			u.Day += c.amount.Nanos
		}
		if in.has(c.day) {
			u.Month += c.amount.Nanos
		}
	}
	x := m.external(scope)
	for start, v := range x.minutes {
		if start+120 > second && v.nanos > 0 {
			u.Minute += v.nanos
		}
	}
	u.Day += x.days[day].nanos
	if in.calendar > 0 {
		u.Month += x.months[in.calendar].nanos
	} else {
		for d, v := range x.days {
			if in.has(d) {
				u.Month += v.nanos
			}
		}
	}
	return u
}

// usage is everything that counts against the tenant and one root at time now.
func (m *model) usage(now int64, day int32, in month, root string) admit.Usage {
	dollars := m.dollars("", now, day, in)
	u := admit.Usage{Minute: dollars.Minute, Day: dollars.Day, Month: dollars.Month}
	second := now / 1_000_000
	for _, c := range m.charges {
		if c.second >= second-60 {
			u.Requests += c.requests
			u.InputTokens += c.amount.InputTokens
			u.OutputTokens += c.amount.OutputTokens
		}
	}
	for _, x := range m.roots {
		if x.open {
			u.OpenExecutions++
		}
	}
	for _, h := range m.holds {
		if !h.expiring && h.ends > now {
			u.Running++
		}
	}
	u.Execution = m.execution(root)
	return u
}

func (m *model) execution(root string) admit.ExecutionUsage {
	var u admit.ExecutionUsage
	x := m.roots[root]
	if root == "" || x == nil {
		return u
	}
	for _, c := range m.charges {
		if c.root == root {
			u.Spent += c.amount.Nanos
		}
	}
	u.Spent += x.external.nanos
	u.Calls, u.Revoked, u.Open = x.calls, x.revoked, x.open
	return u
}

// sweep marks the holds whose lease has run out.
func (m *model) sweep(now int64) {
	for _, h := range m.holds {
		if h.ends <= now {
			h.expiring = true
		}
	}
}

// closeIdle closes the executions that hold nothing and were last used 15 minutes ago.
func (m *model) closeIdle(now int64) {
	busy := map[string]bool{}
	for _, h := range m.holds {
		busy[h.root] = true
	}
	for name, x := range m.roots {
		if !busy[name] && x.used+900_000_000 <= now {
			x.open = false
		}
	}
}

// notReaped counts the open holds, leases that ran out since the last Due included.
func (m *model) notReaped() (n int64) {
	for _, h := range m.holds {
		if !h.expiring {
			n++
		}
	}
	return n
}

func (m *model) root(name string) *modelRoot {
	if name == "" {
		return &modelRoot{}
	}
	if m.roots[name] == nil {
		m.roots[name] = &modelRoot{}
	}
	return m.roots[name]
}

// remembered reports whether id is among the last 64 that ended, and recently.
func (m *model) remembered(id string, now int64) bool {
	list := m.ended[max(0, len(m.ended)-64):]
	for _, e := range list {
		if e.id == id && e.until*1_000_000 > now {
			return true
		}
	}
	return false
}

// end gives the hold its actual amount, at the second where it was reserved.
func (m *model) end(h *modelHold, actual admit.Estimate, now int64) {
	h.first.amount.Nanos += actual.Nanos - h.held.Nanos
	h.first.amount.InputTokens += actual.InputTokens - h.held.InputTokens
	h.first.amount.OutputTokens += actual.OutputTokens - h.held.OutputTokens
	delete(m.holds, h.id)
	if x := m.roots[h.root]; x != nil {
		x.used = max(x.used, now)
	}
	m.ended = append(m.ended, endedID{h.id, now/1_000_000 + 120})
}

// held is what the open holds of a day or month may give back; the last 30 days have it of all.
func (m *model) held(scope string, day int32, in month) (d, mo money.Nano) {
	for _, h := range m.holds {
		if scope != "" && !slices.Contains(h.scopes, scope) {
			continue
		}
		if h.day == day {
			d += h.held.Nanos
		}
		if in.has(h.day) || in.from > 0 {
			mo += h.held.Nanos
		}
	}
	return d, mo
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }
