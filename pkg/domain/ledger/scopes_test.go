package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-project/weir/pkg/domain/window"
)

func stamped(f Facts, id string, each bool) Facts {
	f.APIKeyID = "k1"
	f.Scopes = []Stamp{{window.Scope{Kind: window.CostCenter, ID: "ops"}, false}, {window.Scope{Kind: window.Agent, ID: id}, each}}
	return f
}

// Every entry of a reservation counts in the same sub-scopes, each reversal in those of what it reverses, whatever its
// cause says of itself.
func TestScopesOfReversals(t *testing.T) {
	for _, order := range [][]Message{{External, Settle}, {External, Expiry}, {Estimate, Late}, {Expiry, External}} {
		s := NewState()
		first := book(t, s, stamped(message(order[0], "1"), "a", true))
		second := book(t, s, stamped(message(order[1], "2"), "b", true))
		entries := map[string]Entry{}
		for _, e := range append(first.Entries, second.Entries...) {
			entries[e.ID] = e
		}
		for _, e := range second.Entries {
			want := []window.Scope{{Kind: window.Agent, ID: "b"}, {Kind: window.CostCenter, ID: "ops"}}
			if e.Kind == Reversal {
				want = entries[e.ReversesID].Scopes
			}
			if !slices.Equal(e.Scopes, want) || e.APIKeyID != "k1" {
				t.Errorf("%v: %s of %s: %v, want %v", order, e.Kind, e.EventID, e.Scopes, want)
			}
		}
		if len(second.Entries) != 2 {
			t.Errorf("%v: %d entries", order, len(second.Entries))
		}
	}
}

// Beyond the bound a name that the contract does not know counts in the one that they share, for that month and kind
// alone; a state folded again from the journal decides alike.
func TestNamesAreBounded(t *testing.T) {
	one := func(n int, agent string, each bool) Facts {
		f := stamped(message(External, fmt.Sprint(n)), agent, each)
		f.ReservationID, f.ContentHash = "", sha256.Sum256(fmt.Append(nil, n))
		return f
	}
	var journal []Entry
	s := NewState()
	take := func(f Facts) string {
		d := s.Decide(candidate(t, f))
		again := NewState()
		if f.EventID == "late" {
			for _, e := range journal {
				again.Apply(e)
			}
			if got := again.Decide(candidate(t, f)); !slices.Equal(got.Entries[0].Scopes, d.Entries[0].Scopes) {
				t.Errorf("restarted: %v, else %v", got.Entries[0].Scopes, d.Entries[0].Scopes)
			}
		}
		for _, e := range d.Entries {
			s.Apply(e)
			journal = append(journal, e)
		}
		return d.Entries[0].Scopes[0].ID
	}
	for n := range window.MaxEach {
		if id := fmt.Sprintf("agent-%d", n); take(one(n, id, true)) != id {
			t.Fatalf("%s is beyond the bound", id)
		}
	}
	late := one(5000, "another", true)
	late.EventID = "late"
	next := one(5001, "another", true)
	next.EventTime = next.EventTime.AddDate(0, 1, 0)
	for _, c := range []struct {
		f    Facts
		want string
	}{
		{late, window.OtherScope}, {one(5002, "agent-7", true), "agent-7"}, {one(5003, "named", false), "named"},
		{one(5004, "named", true), "named"}, {next, "another"}, {one(5005, "one more", true), window.OtherScope},
	} {
		if got := take(c.f); got != c.want {
			t.Errorf("event %s counts in %q, want %q", c.f.EventID, got, c.want)
		}
	}
}
