//go:build integration

package budgetstore

import (
	"math/rand/v2"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// model is the same tenant as plain lists: every charge ever made, summed anew for each question. It knows nothing of
// rings, packed bytes or keys.
type model struct {
	last    int64       // µs of the last admitted decision
	rung    ladder.Rung // that it was told
	holds   map[string]*modelHold
	charges []*charge
	ended   []endedID
	minutes map[int64]versioned
	days    map[int32]versioned
	months  map[int32]versioned
	roots   map[string]*modelRoot
	offset  int64
}

// charge is one amount in the sliding minute, the day and the month.
type charge struct {
	second     int64
	day, month int32
	root       string
	requests   int64
	amount     admit.Estimate
	open       bool // still held
}

type modelHold struct {
	id, root   string
	print      admit.Fingerprint
	at, ends   int64
	expiring   bool
	held       admit.Estimate
	first      *charge   // at the second of the reservation
	growth     []*charge // at the seconds of the growth
	day, month int32
	answer     admit.Answer
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
	return &model{holds: map[string]*modelHold{}, minutes: map[int64]versioned{}, days: map[int32]versioned{}, months: map[int32]versioned{},
		roots: map[string]*modelRoot{}}
}

// usage is everything that counts at time now in a day and a month.
func (m *model) usage(now int64, day, month int32, root string) admit.Usage {
	var u admit.Usage
	second := now / 1_000_000
	for _, c := range m.charges {
		if c.second >= second-60 {
			u.Requests += c.requests
			u.InputTokens += c.amount.InputTokens
			u.OutputTokens += c.amount.OutputTokens
			u.Minute += c.amount.Nanos
		}
		if c.day == day {
			u.Day += c.amount.Nanos
		}
		if c.month == month {
			u.Month += c.amount.Nanos
		}
		if root != "" && c.root == root {
			u.Execution.Spent += c.amount.Nanos
		}
	}
	for start, v := range m.minutes {
		if start+120 > second && v.nanos > 0 {
			u.Minute += v.nanos
		}
	}
	for _, x := range m.roots {
		if x.open {
			u.OpenExecutions++
		}
	}
	u.Day += m.days[day].nanos
	u.Month += m.months[month].nanos
	for _, h := range m.holds {
		if !h.expiring && h.ends > now {
			u.Running++
		}
	}
	if x := m.roots[root]; x != nil {
		u.Execution.Spent += x.external.nanos
		u.Execution.Calls, u.Execution.Revoked, u.Execution.Open = x.calls, x.revoked, x.open
	}
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
	for _, c := range append(h.growth, h.first) {
		c.open = false
	}
	delete(m.holds, h.id)
	if x := m.roots[h.root]; x != nil {
		x.used = max(x.used, now)
	}
	m.ended = append(m.ended, endedID{h.id, now/1_000_000 + 120})
}

// held is what the open holds of a day or month may give back.
func (m *model) held(day, month int32) (d, mo money.Nano) {
	for _, h := range m.holds {
		if h.day == day {
			d += h.held.Nanos
		}
		if h.month == month {
			mo += h.held.Nanos
		}
	}
	return d, mo
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }
