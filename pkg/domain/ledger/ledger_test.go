package ledger

import (
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"pgregory.net/rapid"
)

func usd(s string) money.USD {
	a, err := money.ParseUSD(s)
	if err != nil {
		panic(err) // a literal of this file
	}
	return a
}

func dec(s string) money.Decimal {
	d, err := money.ParseDecimal(s)
	if err != nil {
		panic(err) // a literal of this file
	}
	return d
}

func percent(s string) money.Percent {
	p, err := money.ParsePercent(s)
	if err != nil {
		panic(err) // a literal of this file
	}
	return p
}

// costing prices 1,000 input tokens at in and 10 output tokens at out.
func costing(in, out string) *pricing.Costing {
	c := &pricing.Costing{PriceVersion: "pv1"}
	for _, l := range []pricing.Line{{Meter: usage.Input, Quantity: dec("1000"), Rate: dec(in)}, {Meter: usage.Output, Quantity: dec("10"), Rate: dec(out)}} {
		l.CostUSD = money.Price(l.Quantity, l.Rate)
		c.Lines, c.Total = append(c.Lines, l), c.Total.Add(l.CostUSD)
	}
	return c
}

const actualUSD, estimateUSD = "0.0026000000001", "0.01" // the actual is not a whole number of nano-dollars

var reservedAt = time.Date(2026, 3, 31, 23, 59, 0, 0, time.UTC)

// message makes the facts of one message about reservation r1. The event's own time is after midnight.
func message(m Message, id string) Facts {
	f := Facts{Message: m, Tenant: "acme", Source: "app", EventID: id, ContentHash: sha256.Sum256([]byte(id)), Location: time.UTC,
		EventTime: reservedAt.Add(2 * time.Minute), RecordedAt: reservedAt.Add(3 * time.Minute), At: Position{Topic: "usage.events.v1", Partition: 2, Offset: 7},
		Provider: "openai", Model: "gpt-4o", Markup: percent("20"), ReservationID: "r1", Lineage: Lineage{RootExecutionID: "x", AgentID: "a", CostCenter: "ops", Depth: 2},
		Meters: usage.Meters{usage.Input: dec("1000"), usage.Output: dec("10")}, InputTokens: 1000, OutputTokens: 10, Costing: costing("0.0000025", "0.00001000000001")}
	switch m {
	case Settle:
		f.Hold = &Hold{ReservedAt: reservedAt, OwnMode: Direct, Own: 2_600_001, Held: 10_000_000, Epoch: 5}
	case Estimate, Expiry:
		estimate := usd(estimateUSD)
		f.Costing = nil
		f.Hold = &Hold{ReservedAt: reservedAt, OwnMode: Direct, Own: 10_000_000, Held: 10_000_000, Epoch: 5, EstimateUSD: &estimate, PriceVersion: "pv1"}
	case Late:
		f.Hold = &Hold{ReservedAt: reservedAt, Held: 10_000_000}
	}
	return f
}

func candidate(t testing.TB, f Facts) Candidate {
	t.Helper()
	c, err := NewCandidate(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// book decides and applies.
func book(t testing.TB, s *State, f Facts) Decision {
	t.Helper()
	d := s.Decide(candidate(t, f))
	for _, e := range d.Entries {
		s.Apply(e)
	}
	return d
}

// TestTransitions is the table of docs/reference/reservation-life.md, which a test compares too: here one failure is one
// wrong cell of this package.
func TestTransitions(t *testing.T) {
	all := []Message{Settle, Estimate, Expiry, Late, External}
	const no = "already_settled"
	for _, row := range []struct {
		name   string
		before []Message
		want   [5]string // for all, in order
	}{
		{"none", nil, [5]string{"own", "own", "own", "external", "external"}},
		{"K'd", []Message{External}, [5]string{"-K own", "-self own", "-self own", no, no}},
		{"L'd", []Message{Late}, [5]string{"-L own", "-self own", "-self own", no, no}},
		{"E'd", []Message{Estimate}, [5]string{"-E own", no, no, "-E external", "-E external"}},
		{"U'd", []Message{Expiry}, [5]string{"-U own", no, no, "-U external", "-U external"}},
		{"S'd", []Message{Settle}, [5]string{no, no, no, no, no}},
		{"K'd, S'd", []Message{External, Settle}, [5]string{no, no, no, no, no}},
		{"K'd, U'd", []Message{External, Expiry}, [5]string{no, no, no, no, no}},
		{"U'd, L'd", []Message{Expiry, Late}, [5]string{no, no, no, no, no}},
	} {
		letters := map[Message]string{Settle: "S", Estimate: "E", Expiry: "U", Late: "L", External: "K"}
		for i, m := range all {
			s := NewState()
			names := map[string]string{}
			for _, b := range row.before {
				for _, e := range book(t, s, message(b, "before-"+string(b))).Entries {
					names[e.ID] = letters[b]
				}
			}
			d := s.Decide(candidate(t, message(m, "now")))
			var got []string
			for _, e := range d.Entries {
				switch {
				case e.Kind == Reversal && e.ReversesID == d.Entries[len(d.Entries)-1].ID:
					got = append(got, "-self")
				case e.Kind == Reversal:
					got = append(got, "-"+names[e.ReversesID])
				case e.IsOwn():
					got = append(got, "own")
				default:
					got = append(got, "external")
				}
			}
			if d.Verdict != Booked {
				got = []string{string(d.Verdict)}
			}
			if g := strings.Join(got, " "); g != row.want[i] {
				t.Errorf("%s + %s: %s, want %s", row.name, m, g, row.want[i])
			}
		}
	}
}

// An id that was used again after its record was gone (90 days) is another reservation: its messages meet nothing of the
// first one's, and of the first one nothing is known any more.
func TestReusedReservationID(t *testing.T) {
	later := func(m Message, id string) Facts {
		f := message(m, id)
		f.Hold.ReservedAt = reservedAt.Add(91 * 24 * time.Hour)
		return f
	}
	s := NewState()
	book(t, s, message(Settle, "s1"))
	if d := book(t, s, later(Expiry, "u2")); d.Verdict != Booked || len(d.Entries) != 1 {
		t.Fatalf("expiry of the second: %+v", d)
	}
	if d := s.Decide(candidate(t, message(Late, "l1"))); d.Verdict != AlreadyClosed {
		t.Errorf("late of the first: %+v", d)
	}
	d := book(t, s, later(Late, "l2"))
	if d.Verdict != Booked || len(d.Entries) != 2 || d.Entries[0].EventID != "l2" || d.Entries[0].Own+d.Entries[0].External != -10_000_000 {
		t.Errorf("late of the second: %+v", d)
	}
	if d := s.Decide(candidate(t, later(Late, "l3"))); d.Verdict != AlreadyClosed {
		t.Errorf("another late one: %+v", d)
	}
}

func TestEntry(t *testing.T) {
	e := candidate(t, message(Settle, "s1")).Entry
	if e.Raw.String() != actualUSD || e.Billed.String() != "0.00312000000012" || e.Own != 2_600_001 || e.External != 0 || e.OwnMode != Direct || e.Epoch != 5 {
		t.Errorf("settle: raw %s, billed %s, %+v", e.Raw, e.Billed, e)
	}
	if e.Windows.Day != 20260331 || e.PostedPeriod != 202603 || !e.EventTime.Equal(reservedAt) { // field report 107
		t.Errorf("charged to %+v", e.Windows)
	}
	if e.ID != EntryID("acme", "app", "s1", "usage") || len(e.ID) != 34 || e.ID == EntryID("acmea", "pp", "s1", "usage") {
		t.Errorf("id %s", e.ID)
	}
	k := candidate(t, message(External, "k1")).Entry
	if k.External != 2_600_001 || k.Own != 0 || k.Windows.Day != 20260401 || k.IsOwn() {
		t.Errorf("external: %+v", k)
	}
	billed := message(Settle, "s2")
	billed.CountBilled = true
	if e := candidate(t, billed).Entry; e.Own != 2_600_001 || e.Own+e.External != 3_120_001 {
		t.Errorf("count billed: own %d external %d", e.Own, e.External)
	}
	huge := message(External, "h")
	huge.Costing = costing("100000", "0")
	if _, err := NewCandidate(huge); !errors.Is(err, money.ErrRange) {
		t.Errorf("$100 million: %v", err)
	}
	u := candidate(t, message(Expiry, "u1")).Entry
	if u.Kind != Unsettled || u.Own != 10_000_000 || u.External != 0 || len(u.Lines) != 1 || u.Lines[0].Meter != MeterEstimate {
		t.Errorf("unsettled: %+v", u)
	}
	itemised := message(Estimate, "e1")
	itemised.Costing = costing("0.0000025", "0.00075")
	if e := candidate(t, itemised).Entry; len(e.Lines) != 2 || !e.Has(FlagEstimated) || e.Raw.String() != estimateUSD {
		t.Errorf("itemised estimate: %+v", e)
	}
	trip := message(BreakerTrip, "t1")
	if e := candidate(t, trip).Entry; e.Kind != Termination || e.Raw == nil || !e.Raw.IsZero() || e.External != 0 || len(e.Lines) != 0 {
		t.Errorf("termination: %+v", e)
	}
}

// A hold's amount stands in the day that Redis charges it to, also where the contract has another zone by the time it is booked.
func TestDayOfTheHold(t *testing.T) {
	f := message(Settle, "s1")
	f.Location = time.FixedZone("east", 3600) // in which it was reserved on 1 April
	if e := candidate(t, f).Entry; e.Windows.Day != 20260401 || e.PostedPeriod != 202604 {
		t.Errorf("not said: %+v", e.Windows)
	}
	f.Hold.Day = 20260331
	if e := candidate(t, f).Entry; e.Windows.Day != 20260331 || e.Windows.Month != 202603 || e.PostedPeriod != 202603 || e.Windows.Minute != reservedAt.Unix() {
		t.Errorf("%+v", e.Windows)
	}
}

// Field reports 22 and 95: no price is not zero, and what was held stays counted.
func TestUnpriced(t *testing.T) {
	f := message(Settle, "s1")
	f.Costing, f.Hold.Own = nil, 0 // own is what the script has put in the place of the hold: that stands
	e := candidate(t, f).Entry
	if e.Priced() || !e.Has(FlagUnpriced) || e.Own != 0 || e.External != 10_000_000 || len(e.Lines) != 2 || e.Lines[0].Raw != nil {
		t.Errorf("%+v", e)
	}
	if d := e.Delta(); d.Unpriced != 1 || !d.Raw.IsZero() || e.reverse(e, "x").Delta().Unpriced != -1 {
		t.Errorf("%+v", d)
	}
	f.Hold.Own = f.Hold.Held // admission knew no price either
	if e := candidate(t, f).Entry; e.Priced() || e.Own != 10_000_000 || e.External != 0 {
		t.Errorf("%+v", e)
	}
	k := message(External, "k1")
	k.Costing = nil
	if e := candidate(t, k).Entry; e.Own != 0 || e.External != 0 || e.Priced() {
		t.Errorf("%+v", e)
	}
	// A late figure without a price keeps what the hold was: the entry that it reverses does not free it.
	s := NewState()
	book(t, s, message(Expiry, "u1"))
	l := message(Late, "l1")
	l.Costing = nil
	var sum money.Nano
	for _, e := range book(t, s, l).Entries {
		sum += e.Own + e.External
	}
	if sum != 0 { // -held, and held
		t.Errorf("%d", sum)
	}
}

func TestReversalIsExact(t *testing.T) {
	s := NewState()
	k := book(t, s, message(External, "k")).Entries[0]
	d := book(t, s, message(Settle, "s"))
	r := d.Entries[0]
	if r.Kind != Reversal || r.ReversesID != k.ID || r.Windows != k.Windows || !r.EventTime.Equal(k.EventTime) || r.EventID != "s" || r.IsOwn() {
		t.Fatalf("%+v", r)
	}
	sum, err := money.Nano(0).Add(r.Own + r.External + k.Own + k.External)
	if err != nil || sum != 0 || !r.Raw.Add(*k.Raw).IsZero() || !r.Billed.Add(*k.Billed).IsZero() || r.InputTokens+k.InputTokens != 0 || r.OutputTokens+k.OutputTokens != 0 {
		t.Errorf("%+v does not cancel %+v", r, k)
	}
	for i, l := range r.Lines {
		if !l.Raw.Add(*k.Lines[i].Raw).IsZero() || !l.Quantity.Add(k.Lines[i].Quantity).IsZero() {
			t.Errorf("line %+v", l)
		}
	}
}

func TestIdentity(t *testing.T) {
	free := func(id, tenant string) Facts {
		f := message(External, id)
		f.Tenant, f.ReservationID = tenant, ""
		return f
	}
	s := NewState()
	book(t, s, free("e1", "acme"))
	if d := s.Decide(candidate(t, free("e1", "acme"))); d.Verdict != Duplicate || len(d.Entries) != 0 {
		t.Errorf("again: %+v", d)
	}
	if d := book(t, s, free("e1", "other")); d.Verdict != Booked { // field report 68
		t.Errorf("same id of another tenant: %+v", d)
	}
	changed := free("e1", "acme")
	changed.ContentHash = sha256.Sum256([]byte("changed"))
	if d := s.Decide(candidate(t, changed)); d.Verdict != Conflict || d.Detail == "" { // field report 70
		t.Errorf("other content: %+v", d)
	}
	if s.Len() != 2 {
		t.Errorf("%d events held", s.Len())
	}
}

func TestSecondIdentity(t *testing.T) {
	report := func(m Message, id, reservation string, out int64) Facts {
		f := message(m, id)
		f.ResponseID, f.ReservationID, f.OutputTokens = "resp-1", reservation, out
		return f
	}
	kinds := func(d Decision) string {
		out := []string{string(d.Verdict)}
		for _, e := range d.Entries {
			out = append(out, string(e.Kind))
		}
		return strings.Join(out, " ")
	}
	for name, c := range map[string]struct {
		first, second Facts
		want          string
	}{
		"span after event":           {report(External, "e", "", 10), report(External, "span", "", 10), "duplicate"},
		"span after settle":          {report(Settle, "s", "r1", 10), report(External, "span", "", 10), "duplicate"},
		"span with other usage":      {report(External, "e", "", 10), report(External, "span", "", 11), "conflict"},
		"settle after span":          {report(External, "span", "", 10), report(Settle, "s", "r1", 10), "booked REVERSAL USAGE"},
		"reservation after span":     {report(External, "span", "", 10), report(External, "k", "r1", 10), "booked REVERSAL USAGE"},
		"settle after K, same hold":  {report(External, "k", "r1", 10), report(Settle, "s", "r1", 10), "booked REVERSAL USAGE"},
		"two holds, one response":    {report(Settle, "s", "r1", 10), report(Settle, "t", "r2", 10), "booked USAGE"},
		"K of another hold, settled": {report(Settle, "s", "r1", 10), report(External, "k", "r2", 10), "duplicate"},
	} {
		s := NewState()
		book(t, s, c.first)
		d := book(t, s, c.second)
		if got := kinds(d); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if name == "two holds, one response" && !d.Entries[0].Has(FlagSharedResponse) {
			t.Errorf("%s is not flagged", name)
		}
	}
}

// Whatever order, repetition and crash: the net cost is the actual figure if any message brought one, else the estimate.
func TestAnyOrderSameNet(t *testing.T) {
	sets := [][]Message{{Settle}, {Estimate}, {Expiry}, {External}, {Settle, External}, {Estimate, External}, {Estimate, Late}, {Expiry, External},
		{Expiry, Late}, {Expiry, Late, External}, {Estimate, Late, External}, {Late, External}}
	rapid.Check(t, func(rt *rapid.T) {
		set := rapid.SampledFrom(sets).Draw(rt, "set")
		order := rapid.Permutation(append(set, rapid.SliceOfN(rapid.SampledFrom(set), 0, 4).Draw(rt, "repeats")...)).Draw(rt, "order")
		var journal []Entry
		restore := func() *State {
			s := NewState()
			for _, e := range journal {
				s.Apply(e)
			}
			return s
		}
		s := restore()
		for _, m := range order {
			f := message(m, string(m))
			d := s.Decide(candidate(t, f))
			if rapid.Bool().Draw(rt, "crash") { // some of the entries were written, then the event comes again
				n := rapid.IntRange(0, len(d.Entries)).Draw(rt, "written")
				journal = append(journal, d.Entries[:n]...)
				s = restore()
				again := s.Decide(candidate(t, f))
				if n < len(d.Entries) && !reflect.DeepEqual(again.Entries, d.Entries[n:]) {
					rt.Fatalf("after %d of %d entries: %+v", n, len(d.Entries), again)
				}
				d = again
			}
			for _, e := range d.Entries {
				s.Apply(e)
			}
			journal = append(journal, d.Entries...)
		}
		want := usd(estimateUSD)
		for _, m := range set {
			if m == Settle || m == Late || m == External {
				want = usd(actualUSD)
			}
		}
		var raw, billed, lines money.USD
		var nanos, own money.Nano
		ids := map[string]bool{}
		for _, e := range journal {
			raw, billed = raw.Add(*e.Raw), billed.Add(*e.Billed)
			for _, l := range e.Lines {
				lines = lines.Add(*l.Raw)
			}
			nanos, own = nanos+e.Own+e.External, own+e.Own
			if ids[e.ID] {
				rt.Fatalf("entry %s twice", e.ID)
			}
			ids[e.ID] = true
		}
		counted, err := money.CeilNano(want)
		if err != nil || raw.Cmp(want) != 0 || lines.Cmp(want) != 0 || nanos != counted || billed.Cmp(money.ApplyMarkup(want, percent("20"))) != 0 {
			rt.Fatalf("%v: raw %s lines %s billed %s nanos %d, want %s", order, raw, lines, billed, nanos, want)
		}
	})
}

// A late write of a dead owner puts an entry into the journal twice: the state must not see two messages.
func TestDoubledJournalEntry(t *testing.T) {
	s := NewState()
	k := book(t, s, message(External, "k")).Entries[0]
	s.Apply(k)
	if d := book(t, s, message(Settle, "s")); d.Verdict != Booked || len(d.Entries) != 2 {
		t.Errorf("%+v", d)
	}
}

// Messages about two reservations and one free call, which share responses of the provider in any way, in any order, with
// crashes: no entry is reversed twice. Its amount would be given back twice.
func TestReversedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var journal []Entry
		restore := func() *State {
			s := NewState()
			for _, e := range journal {
				s.Apply(e)
			}
			return s
		}
		s := restore()
		for range rapid.IntRange(2, 8).Draw(rt, "messages") {
			m := rapid.SampledFrom([]Message{Settle, Estimate, Expiry, Late, External}).Draw(rt, "message")
			reservation := rapid.SampledFrom([]string{"", "r1", "r2"}[map[bool]int{true: 0, false: 1}[m == External]:]).Draw(rt, "reservation")
			f := message(m, string(m)+reservation)
			f.ReservationID, f.ResponseID = reservation, rapid.SampledFrom([]string{"", "resp-1", "resp-2"}).Draw(rt, "response")
			f.EventID += f.ResponseID
			f.OutputTokens = rapid.Int64Range(10, 11).Draw(rt, "tokens")
			d := s.Decide(candidate(t, f))
			if rapid.Bool().Draw(rt, "crash") { // some of the entries were written, then the event comes again
				n := rapid.IntRange(0, len(d.Entries)).Draw(rt, "written")
				journal = append(journal, d.Entries[:n]...)
				s = restore()
				again := s.Decide(candidate(t, f))
				if n < len(d.Entries) && !reflect.DeepEqual(again.Entries, d.Entries[n:]) {
					rt.Fatalf("after %d of %d entries: %+v", n, len(d.Entries), again)
				}
				d = again
			}
			for _, e := range d.Entries {
				s.Apply(e)
			}
			journal = append(journal, d.Entries...)
		}
		by := map[string]string{}
		for _, e := range journal {
			if other, twice := by[e.ReversesID]; e.ReversesID != "" && twice {
				rt.Fatalf("%s is reversed by %s and by %s", e.ReversesID, other, e.ID)
			}
			by[e.ReversesID] = e.ID
		}
	})
}
