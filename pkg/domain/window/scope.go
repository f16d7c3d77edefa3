package window

import "cmp"

// ScopeKind is what a sub-scope of a tenant is: a cost centre, an agent or an API key.
type ScopeKind string

// The kinds of sub-scopes, by their names in the tenants file, in answers and in record keys.
const (
	CostCenter ScopeKind = "cost_center"
	Agent      ScopeKind = "agent"
	APIKey     ScopeKind = "api_key"
)

// Branch is a child agent that was started with a lower limit of dollars, with its descendants: part of one execution. No
// contract names it, its only total is that since its start, and a call counts in as many as are above it.
const Branch ScopeKind = "execution_branch"

// ScopeKinds are the kinds that a contract may have ceilings for. A call counts in at most one sub-scope of each.
func ScopeKinds() [3]ScopeKind { return [...]ScopeKind{CostCenter, Agent, APIKey} }

// Known reports whether k is one of ScopeKinds.
func (k ScopeKind) Known() bool { return k == CostCenter || k == Agent || k == APIKey }

// Letter names a kind where bytes count: in a hold, in a receipt, in a key of Redis.
func (k ScopeKind) Letter() byte {
	switch k {
	case CostCenter:
		return 'c'
	case Agent:
		return 'a'
	case Branch:
		return 'x'
	default:
		return 'k'
	}
}

// Scope names one sub-scope of a tenant, which counts dollars in a minute, a day and a month of its own; a Branch from its
// start to its end.
type Scope struct {
	Kind ScopeKind
	ID   string
}

// Compare orders scopes by kind and then by name.
func (s Scope) Compare(o Scope) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), cmp.Compare(s.ID, o.ID))
}

// MaxEach is how many names of one kind a tenant's entries may have in one month, beside those that its contract names;
// what comes after them counts in OtherScope, so that totals and counters stay bounded whatever names callers invent.
const MaxEach = 1024

// OtherScope is the name that the values beyond MaxEach share. No value can have it.
const OtherScope = "~"
