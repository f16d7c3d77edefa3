//go:build integration

package admission

import "fmt"

// gateUsed is what a settle says was used. The same again is the same settle.
type gateUsed struct {
	kind    string // meters, missing, failed, cached
	model   string // "" is the granted one; nope has no price
	in, out int64
}

// gateCall is how a settle, release or extend comes: when, with which receipt, and what breaks on its way.
type gateCall struct {
	clock   int64
	id      string
	receipt *gateHold // nil without one
	away    bool      // Redis cannot be reached at all
	missed  bool      // Redis cannot be reached any more once Postgres has decided
	// remembered is when that was reserved which the replica that is called has granted, and not heard the end of; 0 for none.
	// used is what a settle says.
	remembered int64
	used       *gateUsed
}

// recalls reports whether Redis is not asked what the call is about. Where the amount is what is held, it is.
func (c gateCall) recalls() bool {
	return c.remembered > 0 && c.used != nil && (c.used.kind == "cached" || c.used.kind == "meters" && c.used.model != "nope")
}

// gateSubject is the reservation that a call is about, and where it was found.
type gateSubject struct {
	at     int64
	ask    gateAsk
	model  string
	held   gateAmount
	direct *gateHold // Redis has its hold
}

// find looks for the hold, then for what the receipt says, then for the row of the end.
func (g *gate) find(c gateCall) (gateSubject, gateReply) {
	h, row := g.holds[c.id], g.rows[c.id]
	asked := !c.away || c.recalls() && g.rowOf(c.id, c.remembered) == nil // with a row it is asked after all
	switch {
	case asked && h != nil && (c.receipt == nil || c.receipt.at == h.at):
		return gateSubject{h.at, h.ask, h.model, h.held, h}, gateReply{}
	case c.receipt != nil:
		return gateSubject{c.receipt.at, c.receipt.ask, c.receipt.model, c.receipt.told.reserved, nil}, gateReply{}
	case row != nil:
		return gateSubject{row.at, row.ask, row.model, gateAmount{nanos: row.held.nanos}, nil}, gateReply{}
	case c.away:
		return gateSubject{}, gateReply{status: 503, code: "budget_store_unavailable"}
	}
	return gateSubject{}, gateReply{status: 404, code: "reservation_not_found"}
}

// rowOf is the row of what was reserved at an instant, or later under the same id: that of an earlier one gives way.
func (g *gate) rowOf(id string, at int64) *gateRow {
	if row := g.rows[id]; row != nil && row.at >= at {
		return row
	}
	return nil
}

// end writes the first end of a reservation, and lets Redis follow.
func (g *gate) end(c gateCall, s gateSubject, row gateRow) {
	row.at, row.ask, row.model, row.held, row.journal = s.at, s.ask, s.model, s.held, s.direct == nil && row.how == "settled"
	g.rows[c.id] = &row
	g.follow(c, s, row.own)
}

func (g *gate) follow(c gateCall, s gateSubject, own gateAmount) {
	if s.direct != nil && !c.missed && !c.away && g.holds[c.id] == s.direct {
		g.finish(s.direct, own, c.clock)
	}
}

// costs is what a settle counts in place of the hold: unpriced keeps what was held, missing charges it.
func (s gateSubject) costs(u gateUsed) gateAmount {
	switch {
	case u.kind == "failed", u.kind == "cached":
		return gateAmount{}
	case u.kind == "missing" && s.direct == nil: // the journal speaks of the estimate's tokens, whatever was found of the hold
		return gateAmount{s.held.nanos, s.ask.in, s.ask.out}
	case u.kind == "missing":
		return s.held
	case u.model == "nope":
		return gateAmount{s.held.nanos, u.in, u.out}
	}
	return gateAmount{(u.in + u.out) * perToken(s.charged(u)), u.in, u.out}
}

// charged is the model that a settle is charged at: the one it names, be it dearer, else the granted one.
func (s gateSubject) charged(u gateUsed) string {
	if u.model != "" {
		return u.model
	}
	return s.model
}

func (g *gate) settle(c gateCall, u gateUsed) gateReply {
	s, missing := g.find(c)
	if missing.status != 0 {
		return missing
	}
	row, content, own := g.rowOf(c.id, s.at), fmt.Sprint(u.kind, s.charged(u), u.in, "/", u.out), s.costs(u)
	settled := gateReply{status: 200, state: "settled"}
	switch {
	case row == nil:
		g.end(c, s, gateRow{how: "settled", estimated: u.kind == "missing", own: own, content: content})
		return settled
	case row.at != s.at:
		g.follow(c, s, gateAmount{}) // a later reservation of the id has ended
		return gateReply{status: 409, code: "reservation_conflict", state: row.state()}
	case row.how == "settled" && row.content == content:
		if !row.journal {
			g.follow(c, s, row.own) // the first time may have missed Redis
		}
		return settled
	case row.late == content:
		return gateReply{status: 200, state: "settled", late: true}
	case row.late != "":
		return gateReply{status: 409, code: "reservation_conflict", state: "settled"}
	case row.how == "external":
		row.how, row.estimated, row.own, row.content, row.journal = "settled", u.kind == "missing", own, content, true
		row.held = s.held
		return settled
	case row.how == "expired", row.how == "released", row.estimated && u.kind != "missing":
		row.late = content
		return gateReply{status: 200, state: "settled", late: true}
	}
	return gateReply{status: 409, code: "reservation_conflict", state: row.state()}
}

func (r *gateRow) state() string {
	if r.late != "" {
		return "settled"
	}
	return r.how
}

func (g *gate) release(c gateCall) gateReply {
	s, missing := g.find(c)
	if missing.status != 0 {
		return missing
	}
	row := g.rowOf(c.id, s.at)
	switch {
	case row == nil:
		g.end(c, s, gateRow{how: "released"})
		return gateReply{status: 200, state: "released"}
	case row.at == s.at && row.how == "released" && row.late == "":
		g.follow(c, s, gateAmount{})
		return gateReply{status: 200, state: "released"}
	case row.at != s.at:
		g.follow(c, s, gateAmount{})
	}
	return gateReply{status: 409, code: "reservation_conflict", state: row.state()}
}

// extend moves a lease and grows the hold to what the call has written so far.
func (g *gate) extend(c gateCall, lease, soFar int64) gateReply {
	s, missing := g.find(c)
	if missing.status != 0 {
		return missing
	}
	row, h, now := g.rowOf(c.id, s.at), g.holds[c.id], max(c.clock, g.last+1)
	if s.direct == nil || h.ends <= now {
		switch {
		case row != nil:
			return gateReply{status: 409, code: "reservation_conflict", state: row.state()}
		case s.direct != nil:
			return gateReply{status: 409, code: "reservation_conflict", state: "expiring"}
		}
		return gateReply{status: 404, code: "reservation_not_found"}
	}
	if now-c.clock > g.limits.stepTooLong {
		return gateReply{status: 503, code: "budget_store_unavailable"}
	}
	grow := max(0, soFar-h.held.out)
	if code := g.stops(h, now, grow); code != "" {
		return gateReply{status: 200, state: "stop", code: code}
	}
	if grow > 0 {
		more := gateAmount{grow * perToken(h.model), 0, grow}
		g.charges = append(g.charges, &gateCharge{second: now / second, day: h.day, month: h.month, root: h.ask.root, amount: more})
		h.held, g.last = h.held.plus(more), now
	}
	h.ends = max(h.ends, now+lease*second)
	return gateReply{status: 200, state: "open", answer: &gateAnswer{ends: h.ends, reserved: h.held}}
}

// stops names what a growth does not fit into.
func (g *gate) stops(h *gateHold, now, grow int64) string {
	u, l, nanos := g.use(now, h.day, h.month, h.ask.root), g.limits, grow*perToken(h.model)
	switch {
	case grow == 0:
		return ""
	case h.ask.root != "" && u.spent+nanos > l.rootCost:
		return "execution_budget_exceeded"
	case u.month+nanos > l.month, u.day+nanos > l.dayCap, u.minute+nanos > l.minute:
		return "tenant_quota_exceeded"
	case u.out+grow > l.out:
		return "rate_limited"
	}
	return ""
}

// reap ends what is due: Postgres, then Redis. A crash comes after Postgres has decided about the first one.
func (g *gate) reap(clock int64, crash bool) {
	for _, h := range g.due(clock) {
		row := g.rowOf(h.id, h.at)
		if row == nil {
			row = &gateRow{at: h.at, ask: h.ask, model: h.model, held: h.held, how: "expired", own: h.held}
			g.rows[h.id] = row
		}
		if crash {
			return
		}
		switch {
		case row.at != h.at, row.how == "released", row.how == "external":
			g.finish(h, gateAmount{}, clock)
		case row.how == "expired":
			g.finish(h, h.held, clock)
		case !row.journal: // what tokens were used is not in the row: those held err on the safe side
			g.finish(h, gateAmount{row.own.nanos, h.held.in, h.held.out}, clock)
		}
	}
}

// gateEntry is one line of the journal, as far as Redis is concerned.
type gateEntry struct {
	id         string
	at         int64  // 0: it came from Kafka and names the id alone
	mode       string // direct, journal, "" for external usage
	own        gateAmount
	root       string
	day, month int64
	usage      bool // not a reversal
}

// read is the journal reader over a batch: usage from elsewhere closes holds, Postgres first; then Redis gets what it
// missed. A crash comes between the two. fresh says which entries Redis has not been through.
func (g *gate) read(clock int64, batch []gateEntry, fresh []bool, crash bool) {
	closes := make([]bool, len(batch))
	for i, e := range batch {
		h := g.holds[e.id]
		if e.mode != "" || !e.usage || e.id == "" || h == nil {
			continue
		}
		if g.rows[e.id] == nil { // with one of an earlier reservation it may be of that
			g.rows[e.id] = &gateRow{at: h.at, ask: h.ask, model: h.model, held: h.held, how: "external"}
		}
		row := g.rows[e.id]
		closes[i], batch[i].at = row.how == "external" && row.at == h.at, h.at
	}
	if crash {
		return
	}
	for i, e := range batch {
		h := g.holds[e.id]
		switch {
		case !fresh[i], e.mode == "" && !closes[i]:
		case h != nil && h.at == e.at && e.mode == "":
			g.finish(h, gateAmount{}, clock)
		case h != nil && h.at == e.at:
			g.finish(h, e.own, clock)
		case e.mode == "journal":
			g.charges = append(g.charges, &gateCharge{second: e.at / second, day: e.day, month: e.month, root: e.root, requests: 1, amount: e.own})
		}
	}
}
