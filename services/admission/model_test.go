//go:build integration

package admission

import (
	"fmt"
	"maps"
	"slices"
)

// gate is what admission must do, as plainly as it can be said: lists of what was charged, summed anew for each question.
// It knows nothing of HTTP, rings, scripts, rows or packed bytes. Amounts are whole nano-dollars, instants microseconds.
type gate struct {
	limits gateLimits
	last   int64 // the last decision: the store's time never goes behind it
	// What Redis knows: open holds, what was charged, the ids that ended lately, usage that never asked.
	holds   map[string]*gateHold
	charges []*gateCharge
	ended   []gateEnded
	outside map[string]int64 // published totals, by window
	roots   map[string]*gateRoot
	// What Postgres knows: the first end of each reservation id.
	rows map[string]*gateRow
}

type gateLimits struct {
	requests, in, out, concurrency         int64
	minute, day, dayCap, month             int64
	rootCost, rootCalls                    int64
	remembered, idsRemembered, stepTooLong int64
}

type gateAmount struct{ nanos, in, out int64 }

func (a gateAmount) minus(b gateAmount) gateAmount {
	return gateAmount{a.nanos - b.nanos, a.in - b.in, a.out - b.out}
}

func (a gateAmount) plus(b gateAmount) gateAmount {
	return gateAmount{a.nanos + b.nanos, a.in + b.in, a.out + b.out}
}

// gateCharge counts in the second, day and month in which it was reserved, and against its root.
type gateCharge struct {
	second, day, month int64
	root               string
	requests           int64
	amount             gateAmount
}

// gateAsk is what a reservation asks for, always of the model flat: the same again is the same reservation.
type gateAsk struct {
	in, out, lease int64
	root           string
	write          bool // the call has effects
}

// cost is what it asks for at the price of a model.
func (a gateAsk) cost(model string) gateAmount {
	return gateAmount{(a.in + a.out) * perToken(model), a.in, a.out}
}

const (
	cent   = int64(10_000_000)
	second = int64(1_000_000)
)

// perToken is a cent, or half of one at the cheaper model; nothing else has a price.
func perToken(model string) int64 {
	if model == "half" {
		return cent / 2
	}
	return cent
}

type gateHold struct {
	id         string
	ask        gateAsk
	model      string // what was granted
	at, ends   int64
	day, month int64
	held       gateAmount
	first      *gateCharge
	told       gateAnswer // at the reservation
}

// gateRow is how a reservation ended, first.
type gateRow struct {
	at        int64
	ask       gateAsk
	model     string
	held      gateAmount
	how       string // settled, released, expired, external
	estimated bool
	own       gateAmount // what counts in the hold's place
	journal   bool       // nobody told Redis: the journal will
	content   string     // of the settle
	late      string     // content of the one late figure
}

type gateEnded struct {
	id    string
	until int64 // second
}

type gateRoot struct{ calls int64 }

// gateAnswer is what an admitted reservation is told.
type gateAnswer struct {
	model              string
	at, ends           int64
	rung, percent      int64
	reserved           gateAmount
	minute, day, month int64 // left
	spent, left, calls int64 // of the root
}

// gateReply is an answer of any call: state, or the problem's code, limit and figures.
type gateReply struct {
	status               int
	code, limit, state   string
	used, asked, ceiling int64
	answer               *gateAnswer
	late                 bool
}

func newGate(l gateLimits) *gate {
	return &gate{limits: l, holds: map[string]*gateHold{}, outside: map[string]int64{}, roots: map[string]*gateRoot{}, rows: map[string]*gateRow{}}
}

// now is the store's time at a clock.
func (g *gate) now(clock int64) int64 { return max(clock, g.last) }

// gateUse is everything that counts at one instant.
type gateUse struct {
	requests, in, out, minute, day, month, running int64
	spent                                          int64 // of the root
}

func (g *gate) use(now, day, month int64, root string) gateUse {
	var u gateUse
	for _, c := range g.charges {
		if c.second >= now/second-60 {
			u.requests, u.in, u.out, u.minute = u.requests+c.requests, u.in+c.amount.in, u.out+c.amount.out, u.minute+c.amount.nanos
		}
		if c.day == day {
			u.day += c.amount.nanos
		}
		if c.month == month {
			u.month += c.amount.nanos
		}
		if root != "" && c.root == root {
			u.spent += c.amount.nanos
		}
	}
	for name, nanos := range g.outside {
		var start int64
		if _, err := fmt.Sscanf(name, "minute %d", &start); err == nil && start+120 > now/second {
			u.minute += max(0, nanos)
		}
	}
	u.day += g.outside[fmt.Sprint("day ", day)]
	u.month += g.outside[fmt.Sprint("month ", month)]
	if root != "" {
		u.spent += g.outside["root "+root]
	}
	for _, h := range g.holds {
		if h.ends > now {
			u.running++
		}
	}
	return u
}

// reserve decides. clock is the caller's; day and month are those of the store's time.
func (g *gate) reserve(clock, day, month int64, id string, ask gateAsk) gateReply {
	now := max(clock, g.last+1)
	if h := g.holds[id]; h != nil {
		switch {
		case h.ask != ask, h.ends <= now:
			return gateReply{status: 409, code: "reservation_conflict"}
		default:
			return gateReply{status: 200, answer: &h.told}
		}
	}
	if g.remembers(id, now) {
		return gateReply{status: 409, code: "reservation_conflict"}
	}
	if now-clock > g.limits.stepTooLong {
		return gateReply{status: 503, code: "budget_store_unavailable"}
	}
	u, model := g.use(now, day, month, ask.root), "flat"
	rung := g.rung(u.day)
	if rung >= 2 { // degrade before the cut
		model = "half"
	}
	cost := ask.cost(model)
	if r := g.refusal(u, ask, cost, rung); r.code != "" {
		return r
	}
	g.last = now
	h := &gateHold{id: id, ask: ask, model: model, at: now, ends: now + ask.lease*second, day: day, month: month, held: cost,
		first: &gateCharge{second: now / second, day: day, month: month, root: ask.root, requests: 1, amount: cost}}
	g.charges, g.holds[id] = append(g.charges, h.first), h
	l := g.limits
	h.told = gateAnswer{model: model, at: now, ends: h.ends, percent: max(0, u.day) * 100 / l.day, rung: rung, reserved: cost,
		minute: l.minute - u.minute - cost.nanos, day: l.day - u.day - cost.nanos, month: l.month - u.month - cost.nanos}
	if ask.root != "" {
		root := g.root(ask.root)
		root.calls++
		h.told.spent, h.told.left, h.told.calls = u.spent+cost.nanos, l.rootCost-u.spent-cost.nanos, root.calls
	}
	return gateReply{status: 201, answer: &h.told}
}

func (g *gate) root(name string) *gateRoot {
	if g.roots[name] == nil {
		g.roots[name] = &gateRoot{}
	}
	return g.roots[name]
}

func (g *gate) rung(day int64) int64 {
	for rung, percent := range []int64{100, 80, 50} {
		if day*100 >= g.limits.day*percent {
			return int64(3 - rung)
		}
	}
	return 0
}

// refusal is the first limit that does not hold, those first that no waiting cures; what has effects waits from rung 2 on.
func (g *gate) refusal(u gateUse, ask gateAsk, cost gateAmount, rung int64) gateReply {
	l := g.limits
	var calls int64
	if ask.root != "" {
		calls = g.root(ask.root).calls
	}
	type limit struct {
		status               int
		code, name           string
		used, asked, ceiling int64
		off                  bool
	}
	const never, quota, rate, budget = "estimate_exceeds_limit", "tenant_quota_exceeded", "rate_limited", "execution_budget_exceeded"
	for _, c := range []limit{
		{422, never, "month", 0, cost.nanos, l.month, false},
		{422, never, "day", 0, cost.nanos, l.dayCap, false},
		{422, never, "minute", 0, cost.nanos, l.minute, false},
		{422, never, "input_tokens_per_minute", 0, cost.in, l.in, false},
		{422, never, "output_tokens_per_minute", 0, cost.out, l.out, false},
		{403, budget, "max_cost_usd", u.spent, cost.nanos, l.rootCost, ask.root == ""},
		{403, budget, "max_calls", calls, 1, l.rootCalls, ask.root == ""},
		{429, quota, "month", u.month, cost.nanos, l.month, false},
		{429, quota, "day", u.day, cost.nanos, l.dayCap, false},
		{429, quota, "minute", u.minute, cost.nanos, l.minute, false},
		{403, "read_only_mode", "", 1, 0, 0, !ask.write || rung < 3},
		{403, "tool_deferred", "", 1, 0, 0, !ask.write || rung != 2},
		{429, rate, "requests_per_minute", u.requests, 1, l.requests, false},
		{429, rate, "input_tokens_per_minute", u.in, cost.in, l.in, false},
		{429, rate, "output_tokens_per_minute", u.out, cost.out, l.out, false},
		{429, rate, "concurrency", u.running, 1, l.concurrency, false},
	} {
		if !c.off && c.used+c.asked > c.ceiling {
			return gateReply{status: c.status, code: c.code, limit: c.name, used: c.used, asked: c.asked, ceiling: c.ceiling}
		}
	}
	return gateReply{}
}

func (g *gate) remembers(id string, now int64) bool {
	for _, e := range g.ended[max(0, len(g.ended)-int(g.limits.idsRemembered)):] {
		if e.id == id && e.until*second > now {
			return true
		}
	}
	return false
}

// finish gives a hold its actual, in the second where it was reserved. Its growth stays where it was charged.
func (g *gate) finish(h *gateHold, actual gateAmount, clock int64) {
	h.first.amount = h.first.amount.plus(actual.minus(h.held))
	delete(g.holds, h.id)
	g.ended = append(g.ended, gateEnded{h.id, clock/second + g.limits.remembered})
}

// due are the holds whose lease has run out, the longest over first.
func (g *gate) due(clock int64) []*gateHold {
	list := slices.DeleteFunc(slices.Collect(maps.Values(g.holds)), func(h *gateHold) bool { return h.ends > g.now(clock) })
	slices.SortFunc(list, func(a, b *gateHold) int { return int(a.ends - b.ends) })
	return list
}

// held is what open holds of a day or month may give back.
func (g *gate) held(of func(*gateHold) bool) (sum int64) {
	for _, h := range g.holds {
		if of(h) {
			sum += h.held.nanos
		}
	}
	return sum
}
