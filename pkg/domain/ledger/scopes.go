package ledger

import (
	"slices"
	"strconv"

	"github.com/weir-project/weir/pkg/domain/window"
)

// Stamp is a sub-scope that an event counts in. Each: the contract does not name it but has an entry for each name.
type Stamp struct {
	window.Scope
	Each bool
}

// stamp puts the sub-scopes on an entry, and remembers which of them the contract does not name.
func (c *Candidate) stamp(stamps []Stamp) {
	for _, s := range stamps {
		c.Entry.Scopes = append(c.Entry.Scopes, s.Scope)
		if s.Each {
			c.Each = append(c.Each, s.Kind)
		}
	}
	slices.SortFunc(c.Entry.Scopes, window.Scope.Compare)
}

// bounded are the candidate's sub-scopes, where a name that would be one too many for its tenant, kind and month is
// window.OtherScope: names are invented by callers, and each takes three totals.
func (s *State) bounded(c Candidate) []window.Scope {
	out := slices.Clone(c.Entry.Scopes)
	for i, scope := range out {
		names := s.names[namesKey(&c.Entry, scope.Kind)]
		if _, known := names[keyOf(scope.ID)]; !known && len(names) >= window.MaxEach && slices.Contains(c.Each, scope.Kind) {
			out[i].ID = window.OtherScope
		}
	}
	return out
}

// note remembers the names of an entry's sub-scopes.
func (s *State) note(e *Entry) {
	for _, scope := range e.Scopes {
		if scope.Kind == window.Branch { // admission's ids, not names that callers invent
			continue
		}
		k := namesKey(e, scope.Kind)
		if s.names[k] == nil {
			s.names[k] = map[key]struct{}{}
		}
		if scope.ID != window.OtherScope {
			s.names[k][keyOf(scope.ID)] = struct{}{}
		}
	}
}

func namesKey(e *Entry, kind window.ScopeKind) key {
	return keyOf(e.TenantID, string(kind), strconv.Itoa(int(e.Windows.Month)))
}
