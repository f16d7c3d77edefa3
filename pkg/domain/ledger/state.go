package ledger

import "crypto/sha256"

// key is a truncated SHA-256: 128 bits, so that two of 2^40 ids share one with a chance of about 2^-49.
type key [16]byte

func keyOf(parts ...string) key {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return key(h.Sum(nil)[:16])
}

// phase is where a reservation stands.
type phase uint8

const (
	none      phase = iota
	external        // K came: its entry may be reversed by S, or covers U and E
	estimated       // E came: its entry is reversed by one K or L
	expired         // U came: idem
	closed          // nothing more is booked
)

// kept is an entry that a later message may reverse, and the event that has reversed it; none while it stands.
type kept struct {
	Entry
	reversedBy key
}

// gone reports whether another event than that of e has reversed it.
func (k *kept) gone(e *Entry) bool {
	return k != nil && k.reversedBy != (key{}) && k.reversedBy != eventKey(e)
}

// reservation is the state of one reservation. entry is kept while a later message may reverse it.
type reservation struct {
	phase phase
	entry *kept
	// at is when it was reserved, Unix nanoseconds; 0 while no message of admission's has said so.
	at int64
}

// free reports whether nothing is booked that concerns e: nothing at all, or usage that was taken over by whoever was charged
// for the same response.
func (r reservation) free(e *Entry) bool {
	return r.phase == none || r.phase == external && r.entry.gone(e)
}

// before reports whether e is about a later reservation of the same id: one made after Postgres had forgotten the end of
// this one. Nothing of this one concerns it.
func (r reservation) before(e *Entry) bool {
	return r.at != 0 && !e.ReservedAt.IsZero() && e.ReservedAt.UnixNano() > r.at
}

// response is who charged a provider's response.
type response struct {
	in, out       int64 // tokens: what "the same content" means between a span and an event of one call
	own           bool
	reservationID string
	entry         *kept // external ones only: a settle reverses it
}

// State is what one partition's journal says so far. It is not safe for concurrent use.
type State struct {
	events       map[key]key      // event → truncated content hash
	half         map[key][]string // event → ids of its reversals, while its primary entry is missing
	reservations map[key]reservation
	responses    map[key]response
	names        map[key]map[key]struct{} // tenant, kind of sub-scopes and month → their names
	markers      map[string]struct{}      // ids; two per recovery
}

// NewState is the state before the first entry.
func NewState() *State {
	return &State{events: map[key]key{}, half: map[key][]string{}, reservations: map[key]reservation{}, responses: map[key]response{},
		names: map[key]map[key]struct{}{}, markers: map[string]struct{}{}}
}

// Len is the number of events held.
func (s *State) Len() int { return len(s.events) + len(s.markers) }

func eventKey(e *Entry) key { return keyOf(e.TenantID, e.Source, e.EventID) }

func reservationKey(e *Entry) key { return keyOf(e.TenantID, e.ReservationID) }

func responseKey(e *Entry) key { return keyOf(e.TenantID, e.Provider, e.ResponseID) }

// Apply folds one entry of the journal, in journal order. An entry of an event that is known already (a late write of a
// dead owner) changes nothing.
func (s *State) Apply(e Entry) {
	if e.IsMarker() {
		s.markers[e.ID] = struct{}{}
		return
	}
	k := eventKey(&e)
	if _, known := s.events[k]; known {
		return
	}
	if !e.primary() {
		s.half[k] = append(s.half[k], e.ID)
		s.reversed(&e, k)
		return
	}
	delete(s.half, k)
	s.events[k] = key(e.ContentHash[:16])
	s.note(&e)
	stays := &kept{Entry: e}
	stays.RawUsage = nil
	if e.ReservationID != "" && (e.Kind == Usage || e.Kind == Unsettled) {
		s.reservations[reservationKey(&e)] = s.reservations[reservationKey(&e)].next(stays)
	}
	if e.ResponseID != "" && e.Kind == Usage {
		r := response{in: e.InputTokens, out: e.OutputTokens, own: e.IsOwn(), reservationID: e.ReservationID}
		if !r.own {
			r.entry = stays
		}
		s.responses[responseKey(&e)] = r
	}
}

// reversed notes what a reversal is of, so that nothing else reverses it.
func (s *State) reversed(e *Entry, by key) {
	for _, k := range []*kept{s.reservations[reservationKey(e)].entry, s.responses[responseKey(e)].entry} {
		if k != nil && k.ID == e.ReversesID {
			k.reversedBy = by
		}
	}
}

// after reports whether e is about an earlier reservation of the same id, whose record has given way to this one's.
func (r reservation) after(e *Entry) bool {
	return !e.ReservedAt.IsZero() && e.ReservedAt.UnixNano() < r.at
}

// next is the phase after a primary entry.
func (r reservation) next(e *kept) reservation {
	at := r.at
	if !e.ReservedAt.IsZero() {
		at = max(at, e.ReservedAt.UnixNano())
	}
	switch {
	case !r.free(&e.Entry) && !r.before(&e.Entry):
		return reservation{phase: closed, at: at}
	case e.Kind == Unsettled:
		return reservation{phase: expired, entry: e, at: at}
	case e.IsOwn() && e.Has(FlagEstimated):
		return reservation{phase: estimated, entry: e, at: at}
	case e.IsOwn():
		return reservation{phase: closed, at: at}
	}
	return reservation{phase: external, entry: e, at: at}
}
