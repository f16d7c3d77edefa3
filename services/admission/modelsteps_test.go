//go:build integration

package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

func (s *stroll) start(offset int64) {
	s.d.addTenant(s.tenant, strollContract(), s.other)
	s.compareEpochs()
	s.b = newBooks(s.d, s.tenant, offset)
	s.reader = s.b.newReader(0)
	s.compare() // makes the tenant's counters
}

func (s *stroll) compareEpochs() {
	s.d.compareEpoch()
	s.other.compareEpoch()
}

// somewhere is the replica that the next call comes to: one of two, which remember what they have granted themselves.
func (s *stroll) somewhere(t *rapid.T) process {
	if rapid.Bool().Draw(t, "elsewhere") {
		return s.other
	}
	return s.d.process
}

func (s *stroll) clock() int64 { return s.d.clock.us.Load() }

// labels are day and month at an instant of the store, in UTC.
func labels(us int64) (day, month int64) {
	y, m, d := time.UnixMicro(us).UTC().Date()
	month = int64(y*100 + int(m))
	return month*100 + int64(d), month
}

// faults of one call: chance picks a rare one.
func (s *stroll) chance(t *rapid.T, name string, oneIn int) bool {
	return rapid.IntRange(0, oneIn-1).Draw(t, name) == oneIn-1
}

func (s *stroll) time(t *rapid.T) {
	var by time.Duration
	switch rapid.IntRange(0, 9).Draw(t, "how far") {
	case 9:
		by = -time.Duration(rapid.Int64Range(0, 5_000_000).Draw(t, "µs back")) * time.Microsecond
	case 8:
		by = time.Duration(rapid.Int64Range(0, 40*3600).Draw(t, "s far")) * time.Second
	case 6, 7:
		by = time.Duration(rapid.Int64Range(0, 130).Draw(t, "s")) * time.Second
	default:
		by = time.Duration(rapid.Int64Range(0, 6_000_000).Draw(t, "µs")) * time.Microsecond
	}
	s.d.clock.advance(by)
	s.compareEpochs()
}

func (s *stroll) someAsk(t *rapid.T) gateAsk {
	a := gateAsk{in: rapid.Int64Range(0, 60).Draw(t, "in"), out: rapid.Int64Range(1, 110).Draw(t, "out"), lease: rapid.Int64Range(1, 120).Draw(t, "lease"),
		root: rapid.SampledFrom([]string{"", "", "x1", "x2", "x3"}).Draw(t, "root"), write: s.chance(t, "write", 4)}
	if s.chance(t, "huge", 40) {
		a.out = 401
	}
	return a
}

func (s *stroll) reserve(t *rapid.T) { s.ask(t, fmt.Sprintf("r%d", len(s.past)), s.someAsk(t)) }

// reserveAgain takes an id that was used before: with the same content or with other.
func (s *stroll) reserveAgain(t *rapid.T) {
	h := s.somePast(t)
	if h == nil {
		return
	}
	ask := h.ask
	if s.chance(t, "other content", 3) {
		ask.out++
	}
	s.ask(t, h.id, ask)
}

func (s *stroll) somePast(t *rapid.T) *gateHold {
	if len(s.past) == 0 {
		return nil
	}
	recent := s.past[max(0, len(s.past)-12):]
	return recent[rapid.IntRange(0, len(recent)-1).Draw(t, "which")]
}

func (s *stroll) ask(t *rapid.T, id string, ask gateAsk) {
	body := object{"reservation_id": id, "provider": "openai", "model": "flat", "lease_seconds": ask.lease,
		"estimate": object{"input_tokens": ask.in, "max_output_tokens": ask.out}}
	if ask.write {
		body["effect"] = "write"
	}
	if ask.root != "" {
		token, err := s.d.tokenKey.SignExecutionToken(identity.Execution{Tenant: s.tenant, Root: ask.root, Agent: "lead", ExpiresAt: s.d.clock.now().Add(time.Hour)}, s.d.clock.now())
		s.d.must(err)
		body["execution_token"] = token
	}
	fault := through
	if s.chance(t, "fault", 15) {
		fault = rapid.SampledFrom([]int32{severed, noAnswer}).Draw(t, "which fault")
		s.d.beforeScript(func() { s.d.redisWire.set(fault) })
	}
	status, out := s.somewhere(t).call(s.d.world, s.tenant, "POST", "/v1/reservations", body)
	s.d.heal()
	if fault != through && status != 503 {
		t.Fatalf("reserve without an answer of Redis: %d %v", status, out)
	}
	if fault == severed {
		return
	}
	before := s.g.holds[id]
	day, month := labels(max(s.clock(), s.g.last+1))
	want := s.g.reserve(s.clock(), day, month, id, ask)
	h := s.g.holds[id]
	if h != nil && h != before {
		s.past = append(s.past, h)
	}
	if receipt, ok := out["receipt"].(string); ok && h != nil {
		s.receipts[h] = receipt
	}
	if fault == through { // else it was decided, and nobody was told: asking again must tell
		s.same(t, "reserve "+id, status, out, want)
	}
}

// call draws the circumstances of a settle, release or extend, and who it is about.
func (s *stroll) someCall(t *rapid.T) (c gateCall, body object, ok bool) {
	h := s.somePast(t)
	if h == nil {
		return c, nil, false
	}
	c, body = gateCall{clock: s.clock(), id: h.id}, object{}
	if receipt, known := s.receipts[h]; known && rapid.Bool().Draw(t, "receipt") {
		c.receipt = h
		body["receipt"] = receipt
	}
	if s.chance(t, "unknown", 30) {
		c.id, c.receipt = "nobody", nil
		delete(body, "receipt")
	}
	return c, body, true
}

func (s *stroll) settle(t *rapid.T) {
	c, body, ok := s.someCall(t)
	if !ok {
		return
	}
	u := gateUsed{kind: rapid.SampledFrom([]string{"meters", "meters", "meters", "meters", "missing", "failed", "cached"}).Draw(t, "kind")}
	switch u.kind {
	case "missing":
		body["status"] = "PARTIAL"
	case "failed":
		body["status"] = "FAILED"
	case "cached":
		body["cache_hit"] = "exact"
	default:
		u.in, u.out = rapid.Int64Range(0, 40).Draw(t, "used in"), rapid.Int64Range(1, 90).Draw(t, "used out")
		if rapid.Bool().Draw(t, "usual") { // so that repeats happen
			u.in, u.out = 3, 20
		}
		body["meters"] = object{"input_tokens": u.in, "output_tokens": u.out}
		if u.model = rapid.SampledFrom([]string{"", "", "", "flat", "half", "nope"}).Draw(t, "model"); u.model != "" {
			body["model"] = u.model
		}
	}
	c.used = &u
	s.decide(t, "settle", c, body, func() gateReply { return s.g.settle(c, u) }, &c)
}

// settleLate lets a lease end and the reaper come first.
func (s *stroll) settleLate(t *rapid.T) {
	if len(s.g.holds) == 0 {
		return
	}
	s.d.clock.advance(121 * time.Second)
	s.compareEpochs()
	s.reap(t)
	s.settle(t)
}

func (s *stroll) release(t *rapid.T) {
	if c, body, ok := s.someCall(t); ok {
		s.decide(t, "release", c, body, func() gateReply { return s.g.release(c) }, &c)
	}
}

// decide makes a call that Postgres decides, under a fault or none.
func (s *stroll) decide(t *rapid.T, what string, _ gateCall, body object, model func() gateReply, c *gateCall) {
	fault := rapid.IntRange(0, 13).Draw(t, "fault")
	switch fault {
	case 11:
		c.away = true
		s.d.redisWire.set(severed)
	case 12:
		c.missed = true
		s.d.beforeScript(func() { s.d.redisWire.set(severed) })
	case 13:
		s.d.pgWire.set(noReceipt)
	}
	at := s.somewhere(t)
	remembered, known := at.svc.recalled(s.tenant, c.id)
	if known && (c.receipt == nil || remembered.reservedAt.UnixMicro() == c.receipt.at) { // an id may have had two holds
		c.remembered = remembered.reservedAt.UnixMicro()
	}
	status, out := at.call(s.d.world, s.tenant, "POST", "/v1/reservations/"+c.id+"/"+what, body)
	s.d.heal()
	if fault == 13 && status == 503 { // the answer of the commit was lost, so Redis was not told
		found, _ := s.g.find(*c)
		if noop := (found.direct != nil || c.recalls()) && s.g.rowOf(c.id, found.at) != nil; noop { // it only asked whether it was the first
			return
		}
		if row, ended, err := at.svc.rows.Get(context.Background(), s.tenant, c.id); err != nil || s.g.rowOf(c.id, found.at) == nil && (!ended || row.ReservedAt.UnixMicro() < found.at) {
			s.d.must(err)
			return // an earlier reservation's row was in the way of the plain insert, and it is that answer which was lost
		}
		c.missed = true
		t.Logf("» %s %s: committed, answer lost: %d", what, c.id, model().status)
		return
	}
	s.same(t, what+" "+c.id, status, out, model())
}

func (s *stroll) extend(t *rapid.T) {
	c, body, ok := s.someCall(t)
	if !ok {
		return
	}
	lease, soFar := rapid.Int64Range(1, 120).Draw(t, "lease"), int64(0)
	body["lease_seconds"] = lease
	if rapid.Bool().Draw(t, "grows") {
		soFar = rapid.Int64Range(1, 260).Draw(t, "so far")
		body["output_tokens_so_far"] = soFar
	}
	status, out := s.somewhere(t).call(s.d.world, s.tenant, "POST", "/v1/reservations/"+c.id+"/extend", body)
	s.same(t, "extend "+c.id, status, out, s.g.extend(c, lease, soFar))
}

func (s *stroll) reap(t *rapid.T) {
	due := s.g.due(s.clock())
	crash := len(due) == 1 && s.chance(t, "crash", 3)
	who := budgetstore.Tenant{ID: s.tenant, Epoch: 4711}
	if crash {
		calls := 0
		var hook func()
		hook = func() { // the first script finds what is due, the second one follows Postgres
			if calls++; calls == 1 {
				s.d.beforeScript(hook)
				return
			}
			s.d.redisWire.set(severed)
		}
		s.d.beforeScript(hook)
	}
	err := s.d.svc.reapTenant(context.Background(), who)
	s.d.heal()
	if crash && err != nil && !errors.Is(err, budgetstore.ErrUnavailable) || !crash && err != nil {
		t.Fatalf("reap: %v", err)
	}
	t.Logf("» reap %d, crash %v", len(due), crash)
	s.g.reap(s.clock(), crash)
}

// attribute publishes some of the outbox and books it.
func (s *stroll) attribute(t *rapid.T) { s.relay(rapid.IntRange(1, 5).Draw(t, "rows")) }

func (s *stroll) relay(most int) int {
	events := s.b.relay(most)
	for _, ev := range events {
		s.t.Logf("» attribute %s held %d %s %v", ev.ID, ev.Data.Reservation.HeldNanos, ev.Data.Model, ev.Data.Meters)
		s.heard(ev)
	}
	return len(events)
}

// truth is what the reservations of one id must cost in the books.
type truth struct {
	at            int64 // when the latest was reserved that the attributor has heard of; 0: usage from Kafka only
	earlier, last int64 // nano-dollars: those before it, and itself
	final         bool  // an actual figure of it was heard
}

func (s *stroll) truthOf(id string) *truth {
	if s.truths[id] == nil {
		s.truths[id] = new(truth)
	}
	return s.truths[id]
}

// heard keeps what a reservation must cost: the settle's figure; else the first actual one; else the estimate.
func (s *stroll) heard(ev usageevent.Event) {
	r, of := ev.Data.Reservation, s.truthOf(ev.Data.ReservationID)
	if r.Outcome == usageevent.OutcomeLate && of.at == 0 && of.final {
		return // a dead letter: usage from Kafka has said it, of a reservation that nothing else was said about
	}
	if at := r.ReservedAt.UnixMicro(); at > of.at {
		if of.at > 0 {
			of.earlier, of.last, of.final = of.earlier+of.last, 0, false
		}
		of.at = at
	}
	u := int64(0)
	for _, q := range ev.Data.Meters {
		n, _ := q.Int64()
		u += n * perToken(ev.Data.Model)
	}
	if ev.Data.Model == "nope" {
		u = int64(r.HeldNanos)
	}
	switch r.Outcome {
	case usageevent.OutcomeSettled:
		of.last, of.final = u, true
	case usageevent.OutcomeEstimated, usageevent.OutcomeUnsettled:
		if !of.final {
			of.last = int64(r.HeldNanos)
		}
	case usageevent.OutcomeLate:
		if !of.final {
			of.last, of.final = u, true
		}
	}
}

// fromKafka is usage that never asked; it may name a reservation, open or not.
func (s *stroll) fromKafka(t *rapid.T) {
	id, root := "", rapid.SampledFrom([]string{"", "x1"}).Draw(t, "root")
	if h := s.somePast(t); h != nil && !s.chance(t, "no reservation", 4) {
		id, root = h.id, h.ask.root
	}
	s.events++
	tokens := rapid.Int64Range(1, 60).Draw(t, "tokens")
	d := s.b.fromKafka(fmt.Sprint("k", s.events), id, root, tokens)
	t.Logf("» from Kafka %q %d: %s", id, tokens, d.Verdict)
	if id != "" && d.Verdict == ledger.Booked {
		of := s.truthOf(id)
		of.last, of.final = tokens*cent, true
	}
}

// readJournal gives the reader some entries, new ones or from before again, and may end between Postgres and Redis.
func (s *stroll) readJournal(t *rapid.T) {
	from := s.read
	if s.chance(t, "redelivery", 4) {
		from = max(0, from-rapid.IntRange(1, 3).Draw(t, "back"))
	}
	to := min(len(s.b.entries), from+rapid.IntRange(1, 6).Draw(t, "entries"))
	crash := s.chance(t, "crash", 6)
	s.readRange(t, from, max(from, to), crash)
}

func (s *stroll) readRange(t *rapid.T, from, to int, crash bool) {
	if crash {
		s.d.beforeScript(func() { s.d.redisWire.set(severed) })
	}
	err := s.b.read(s.reader, s.b.records(from, to))
	s.d.heal()
	if err != nil && !(crash && errors.Is(err, budgetstore.ErrUnavailable)) {
		t.Fatalf("the journal: %v", err)
	}
	t.Logf("» read %d..%d, crash %v: %v", from, to, crash, err)
	var batch []gateEntry
	var fresh []bool
	for i, e := range s.b.entries[from:to] {
		g := gateEntry{id: e.ReservationID, mode: string(e.OwnMode), own: gateAmount{int64(e.Own), e.InputTokens, e.OutputTokens},
			root: e.Lineage.RootExecutionID, day: int64(e.Windows.Day), month: int64(e.Windows.Month), usage: e.Kind == ledger.Usage}
		if !e.ReservedAt.IsZero() {
			g.at = e.ReservedAt.UnixMicro()
		}
		batch, fresh = append(batch, g), append(fresh, from+i >= s.read)
	}
	s.g.read(s.clock(), batch, fresh, crash && err != nil)
	if err == nil {
		s.read = max(s.read, to)
	}
}

func (s *stroll) publish(*rapid.T) {
	for name, nanos := range s.b.publish() {
		s.g.outside[name] = nanos
	}
}

// replace starts another process: sometimes all of it, else the reader alone, which remembers what was delivered before.
func (s *stroll) replace(t *rapid.T) {
	if s.chance(t, "all of it", 6) {
		s.d.replace()
		s.d.addTenant(s.tenant, strollContract(), s.other)
	}
	s.reader = s.b.newReader(s.read)
}

// same compares an answer with the model's.
func (s *stroll) same(t *rapid.T, what string, status int, out object, want gateReply) {
	t.Helper()
	t.Logf("» %s: %d %s %s%v", what, status, want.code, want.limit, out["state"])
	kind, _, _ := strings.Cut(what, " ")
	s.count[strings.TrimSpace(fmt.Sprint(kind, " ", want.status, " ", want.code, " ", want.limit, want.state))]++
	if want.answer != nil && want.answer.model == "half" {
		s.count["reserve half"]++
	}
	got := []string{fmt.Sprint(status)}
	expect := []string{fmt.Sprint(want.status)}
	add := func(name, value string) {
		got, expect = append(got, name+"="+fmt.Sprint(out[name])), append(expect, name+"="+value)
	}
	usd := func(n int64) string { return money.Nano(n).USD().String() }
	switch {
	case want.state == "stop":
		add("stop", "true")
		add("reason", want.code)
	case want.code != "":
		add("code", want.code)
		if want.state != "" {
			add("state", want.state)
		}
		if want.limit != "" {
			name, figure := "limit", func(n int64) string { return fmt.Sprint(n) }
			if want.code == "tenant_quota_exceeded" {
				name = "window"
			}
			switch want.limit {
			case "minute", "day", "month", "max_cost_usd":
				figure = usd
			}
			add(name, want.limit)
			if want.code == "estimate_exceeds_limit" { // where what is used plays no part
				add("used", "<nil>")
			} else {
				add("used", figure(want.used))
			}
			add("asked", figure(want.asked))
			add("ceiling", figure(want.ceiling))
		}
	case want.state != "":
		add("state", want.state)
	}
	if want.late {
		add("late", "true")
	}
	if a := want.answer; a != nil {
		add("expires_at", clock(time.UnixMicro(a.ends)))
		add("reserved", fmt.Sprint(object{"cost_usd": usd(a.reserved.nanos), "input_tokens": a.reserved.in, "output_tokens": a.reserved.out}))
		if a.at != 0 {
			add("reserved_at", clock(time.UnixMicro(a.at)))
			add("model", a.model)
			add("rung", fmt.Sprint(a.rung))
			add("percent_used", fmt.Sprint(a.percent))
			add("remaining", fmt.Sprint(object{"minute_usd": usd(a.minute), "day_usd": usd(a.day), "month_usd": usd(a.month)}))
			if x, ok := out["execution"].(object); ok {
				add("execution", fmt.Sprint(object{"spent_usd": usd(a.spent), "remaining_usd": usd(a.left), "calls": a.calls, "depth": 0, "root_execution_id": x["root_execution_id"]}))
			} else if a.calls != 0 {
				add("execution", "an execution")
			}
		}
	}
	if g, e := strings.Join(got, " "), strings.Join(expect, " "); g != e {
		t.Fatalf("%s:\n got %s\nwant %s\n(%v)", what, g, e, out)
	}
}

// compare reads every counter back.
func (s *stroll) compare() {
	s.t.Helper()
	now := s.g.now(s.clock())
	day, month := labels(now)
	u := s.g.use(now, day, month, "")
	who := budgetstore.Tenant{ID: s.tenant, Epoch: 4711}
	var b budgetstore.Budget
	s.d.must(s.d.svc.onTenant(context.Background(), who, func() (err error) {
		b, err = s.d.svc.counters.Budget(context.Background(), who, admit.CalendarAt(time.UnixMicro(now), time.UTC), admit.Limits{})
		return err
	}))
	got := fmt.Sprint(b.Minute.Used(), b.Day.Used(), b.Month.Used(), b.Requests, b.InputTokens, b.OutputTokens, b.Concurrency, b.Day.Held, b.Month.Held)
	held := []int64{s.g.held(func(h *gateHold) bool { return h.day == day }), s.g.held(func(h *gateHold) bool { return h.month == month })}
	want := fmt.Sprint(u.minute, u.day, u.month, u.requests, u.in, u.out, u.running, held[0], held[1])
	if got != want {
		s.t.Fatalf("minute day month requests in out running held held:\n got %s\nwant %s", got, want)
	}
}

// finish lets everything that is under way arrive, and closes the books.
func (s *stroll) finish() {
	s.t.Helper()
	for s.relay(100) > 0 {
	}
	for s.read < len(s.b.entries) {
		s.readRange(s.t, s.read, min(len(s.b.entries), s.read+20), false)
	}
	s.publish(s.t)
	s.compare()

	// Each reservation costs what its last figure says, once.
	net, own := map[string]int64{}, map[int64]int64{}
	for _, e := range s.b.entries {
		if e.ReservationID != "" {
			net[e.ReservationID] += int64(e.Own + e.External)
		}
		own[int64(e.Windows.Day)] += int64(e.Own)
	}
	for _, id := range sortedKeys(net) {
		if of := s.truthOf(id); net[id] != of.earlier+of.last {
			s.t.Fatalf("%s costs %d in the books, want %+v", id, net[id], *of)
		}
	}
	// Own in Redis = the books' own + open holds, to the nano-dollar.
	now := s.g.now(s.clock())
	day, _ := labels(now)
	open := s.g.held(func(h *gateHold) bool { return h.day == day })
	b, err := s.d.svc.counters.Budget(context.Background(), budgetstore.Tenant{ID: s.tenant, Epoch: 4711}, admit.CalendarAt(time.UnixMicro(now), time.UTC), admit.Limits{})
	s.d.must(err)
	if int64(b.Day.Own) != own[day]+open {
		s.t.Fatalf("own of the day in Redis %d, in the books %d and %d held", b.Day.Own, own[day], open)
	}
}
