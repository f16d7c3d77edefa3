package tenant

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// MaxScopes bounds the entries of one contract, those of its plan included.
const MaxScopes = 64

// EachScope, as the name of a sub-scope, stands for each value of its kind that has no entry of its own, for itself.
const EachScope = "*"

// Scope bounds the dollars of one sub-scope of a tenant: a cost centre, an agent or an API key.
// ID may be EachScope. A ceiling of 0 is none; a scope without any exempts its value from the entry of EachScope.
// The day is soft where the tenant's own day is, with the same overrun; the month is of the tenant's kind.
type Scope struct {
	window.Scope
	Ceilings Ceilings
}

// Limited reports whether the scope has a ceiling at all.
func (s Scope) Limited() bool { return s.Ceilings != Ceilings{} }

// Values are what a call, or a ledger entry, says of itself; "" = it does not say.
type Values struct {
	CostCenter, Agent, APIKey string
}

func (v Values) of(k window.ScopeKind) string {
	switch k {
	case window.CostCenter:
		return v.CostCenter
	case window.Agent:
		return v.Agent
	case window.APIKey:
		return v.APIKey
	}
	return ""
}

// Counted is a sub-scope that a call counts in. Each says that its ceilings are those of the entry EachScope.
type Counted struct {
	Scope
	Each bool
}

// ScopesOf lists the sub-scopes in which a call with these values counts: at most one of each kind, sorted, each with the
// value as its ID, never EachScope. A value that is not a plain id (ValidID) counts in none: nothing that is asked
// for can have it.
func (c Contract) ScopesOf(v Values) []Counted {
	if len(c.Scopes) == 0 {
		return nil
	}
	var out []Counted
	for _, kind := range window.ScopeKinds() {
		value := v.of(kind)
		if !ValidID(value) {
			continue
		}
		entry, each := c.scope(kind, value), false
		if entry == nil {
			entry, each = c.scope(kind, EachScope), true
		}
		if entry != nil && entry.Limited() {
			out = append(out, Counted{Scope{window.Scope{Kind: kind, ID: value}, entry.Ceilings}, each})
		}
	}
	slices.SortFunc(out, func(a, b Counted) int { return a.Compare(b.Scope.Scope) })
	return out
}

// Names reports whether the contract has an entry of that very name.
func (c Contract) Names(s window.Scope) bool {
	return s.ID != EachScope && c.scope(s.Kind, s.ID) != nil
}

// ScopeCeilings are those of a sub-scope: of the entry of its name, else of EachScope; none where there is neither.
func (c Contract) ScopeCeilings(s window.Scope) Ceilings {
	for _, id := range []string{s.ID, EachScope} {
		if entry := c.scope(s.Kind, id); entry != nil {
			return entry.Ceilings
		}
	}
	return Ceilings{}
}

func (c Contract) scope(kind window.ScopeKind, id string) *Scope {
	for i := range c.Scopes {
		if c.Scopes[i].Kind == kind && c.Scopes[i].ID == id {
			return &c.Scopes[i]
		}
	}
	return nil
}

// WithScope is the contract with s in place of its entry of the same kind and name, or beside the others. The receiver's
// own list is left alone: contracts of one plan share it.
func (c Contract) WithScope(s Scope) Contract {
	c.Scopes = slices.Clone(c.Scopes)
	if old := c.scope(s.Kind, s.ID); old != nil {
		*old = s
		return c
	}
	c.Scopes = append(c.Scopes, s)
	slices.SortFunc(c.Scopes, func(a, b Scope) int { return a.Compare(b.Scope) })
	return c
}

// ValidID accepts 1 to 128 of A-Z a-z 0-9 . _ : -, which is what every id of the API and of the tenants file is, but
// not dots alone: "." and ".." cannot be a segment of a path (RFC 3986, section 5.2.4).
func ValidID(id string) bool {
	dots := 0
	for i := range len(id) {
		switch b := id[i]; {
		case b == '.':
			dots++
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '_', b == ':', b == '-':
		default:
			return false
		}
	}
	return dots < len(id) && len(id) <= 128
}

// validateScopes lists everything that is wrong, in words that name the field of the tenants file.
func (c Contract) validateScopes() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scopes: "+format, args...)) }
	if len(c.Scopes) > MaxScopes {
		bad("%d entries, its plan's included; at most %d", len(c.Scopes), MaxScopes)
	}
	seen := map[window.Scope]bool{}
	for _, s := range c.Scopes {
		switch {
		case !s.Kind.Known():
			bad("kind %q is not one of %v", s.Kind, window.ScopeKinds())
		case s.ID != EachScope && !ValidID(s.ID):
			bad("%s %.40q must be * or 1-128 of A-Za-z0-9._:-, not dots alone", s.Kind, s.ID)
		case seen[s.Scope]:
			bad("%s %q stands there twice", s.Kind, s.ID)
		}
		seen[s.Scope] = true
		for _, n := range []money.Nano{s.Ceilings.Minute, s.Ceilings.Day, s.Ceilings.Month} {
			if n < 0 || n > money.MaxNano {
				bad("%s %q: a ceiling must be above 0, at most %s", s.Kind, s.ID, money.MaxNano.USD())
			}
		}
	}
	return errs
}
