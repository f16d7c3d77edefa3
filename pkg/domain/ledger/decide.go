package ledger

import (
	"crypto/sha256"
	"slices"
)

// Verdict is what becomes of an event.
type Verdict string

// The verdicts.
const (
	Booked        Verdict = "booked"
	Duplicate     Verdict = "duplicate"       // known, with the same content: dropped
	Conflict      Verdict = "conflict"        // known, with other content: dead letter
	AlreadyClosed Verdict = "already_settled" // its reservation has had its last figure: dead letter
)

// Decision is what to write. Entries are in the order in which they must be written: the primary entry last.
type Decision struct {
	Verdict Verdict
	Entries []Entry
	// Detail is for the dead letter.
	Detail string
}

// Decide applies identity and then the transition table to a candidate; it changes nothing. Whoever writes the entries
// calls Apply for each, in order. The table, cell by cell, is docs/reference/reservation-life.md; a test compares it.
// An event without a reservation is always booked as external, unless its response was charged already.
func (s *State) Decide(c Candidate) Decision {
	e := c.Entry
	e.Scopes = s.bounded(c)
	if hash, known := s.events[eventKey(&e)]; known {
		if hash == key(e.ContentHash[:sha256.Size/2]) {
			return Decision{Verdict: Duplicate}
		}
		return Decision{Verdict: Conflict, Detail: "the same source and id came before with other content"}
	}
	reversals, d, done := s.byResponse(&e, c.Message)
	if done {
		return d
	}
	if e.ReservationID != "" && c.Message != BreakerTrip {
		more, ok := s.byReservation(&e, c.Message)
		if !ok {
			return Decision{Verdict: AlreadyClosed, Detail: "reservation " + e.ReservationID + " has had its last figure"}
		}
		reversals = append(more, reversals...)
	}
	// What was written before a crash is not written again; the primary entry is missing in any case.
	written := s.half[eventKey(&e)]
	reversals = slices.DeleteFunc(reversals, func(r Entry) bool { return slices.Contains(written, r.ID) })
	return Decision{Verdict: Booked, Entries: append(reversals, e)}
}

// byReservation returns the reversals that the table asks for; ok is false where it refuses.
func (s *State) byReservation(e *Entry, m Message) (reversals []Entry, ok bool) {
	r := s.reservations[reservationKey(e)]
	actual := m == Late || m == External || m == Settle
	switch {
	case r.free(e), r.before(e):
		return nil, true
	case r.after(e):
		return nil, false
	case r.phase == external && m == Settle:
		return []Entry{r.entry.reverse(*e, stageReverse)}, true
	case r.phase == external && (m == Estimate || m == Expiry):
		// The actual figure is booked: the estimate goes in because Redis counts it, and out again.
		return []Entry{e.reverse(*e, stageReverse)}, true
	case (r.phase == estimated || r.phase == expired) && actual:
		// An actual figure beats an estimate. A settle comes here only when Postgres had forgotten the end before it.
		return []Entry{r.entry.reverse(*e, stageReverse)}, true
	}
	return nil, false
}

// byResponse looks at the second identity, the provider's response. done says that d is the answer. Messages about the
// same reservation are the table's business. Of two reports of one response, the one that names a reservation stays: it
// reverses the other. Two settles with one response are both in Redis, so both are booked, with a flag.
func (s *State) byResponse(e *Entry, m Message) (reversals []Entry, d Decision, done bool) {
	if e.ResponseID == "" || e.Kind != Usage {
		return nil, Decision{}, false
	}
	r, known := s.responses[responseKey(e)]
	switch {
	case !known || r.reservationID != "" && r.reservationID == e.ReservationID:
		return nil, Decision{}, false
	case !r.own && !r.entry.gone(e) && e.ReservationID != "" && (m != External || r.reservationID == ""):
		return []Entry{r.entry.reverse(*e, stageShared)}, Decision{}, false
	case e.IsOwn():
		e.flag(FlagSharedResponse)
		return nil, Decision{}, false
	case r.in == e.InputTokens && r.out == e.OutputTokens:
		return nil, Decision{Verdict: Duplicate}, true
	}
	return nil, Decision{Verdict: Conflict, Detail: "response " + e.ResponseID + " was charged before with other usage"}, true
}
