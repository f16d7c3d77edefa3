package ledger

import "time"

// EpochMarker is no line of the books: it says where an epoch of Redis begins in one partition of the journal
// (ADR 0009). It has no tenant, no amount and no windows, and no store of entries keeps it.
const EpochMarker Kind = "EPOCH_MARKER"

// Phase is which point of a recovery a marker is.
type Phase string

// The phases.
const (
	// Raised: what precedes the marker is the base of the epoch.
	Raised Phase = "raised"
	// Barrier: what precedes the marker is applied before anything is admitted in the epoch.
	Barrier Phase = "barrier"
)

// Marker is what an EpochMarker entry says.
type Marker struct {
	Epoch int64
	Phase Phase
}

// NewMarker is the journal entry of the marker event id, whose record stood at at and was taken by the broker at
// recordedAt.
func NewMarker(id string, m Marker, recordedAt time.Time, at Position) Entry {
	return Entry{ID: id, Kind: EpochMarker, Marker: &m, RecordedAt: recordedAt.UTC(), At: at}
}

// IsMarker reports whether e says something about its partition and nothing about money.
func (e Entry) IsMarker() bool { return e.Kind == EpochMarker }

// Mark decides about a marker: it is written once, whatever comes again. Whoever writes it calls Apply.
func (s *State) Mark(marker Entry) Decision {
	if _, known := s.markers[marker.ID]; known {
		return Decision{Verdict: Duplicate}
	}
	return Decision{Verdict: Booked, Entries: []Entry{marker}}
}
