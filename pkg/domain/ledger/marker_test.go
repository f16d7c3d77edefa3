package ledger

import (
	"testing"
	"time"
)

// Goal: a marker is booked once, also by a process that restarts from the journal, and adds nothing to any total.
func TestMarkerOnce(t *testing.T) {
	s := NewState()
	marker := func(id string) Entry {
		return NewMarker(id, Marker{Epoch: 9, Phase: Raised}, time.Unix(0, 0), Position{Partition: 2})
	}
	for _, id := range []string{"epoch:9:raised:2", "epoch:9:barrier:2"} {
		d := s.Mark(marker(id))
		if d.Verdict != Booked || len(d.Entries) != 1 || d.Entries[0].Delta().Own != 0 {
			t.Fatalf("%+v", d)
		}
		if again := s.Mark(marker(id)); again.Verdict != Booked {
			t.Errorf("%s was known before it was applied", id)
		}
		s.Apply(d.Entries[0])
		if again := s.Mark(marker(id)); again.Verdict != Duplicate || len(again.Entries) != 0 {
			t.Errorf("%s twice: %+v", id, again)
		}
	}
	if s.Len() != 2 {
		t.Errorf("%d held", s.Len())
	}
	if d := book(t, s, message(External, "k")); d.Verdict != Booked {
		t.Errorf("an event after markers: %+v", d)
	}
}
