package admission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// scopeName names a sub-scope in an answer. ID is "~" for those that are too many to be counted one by one.
type scopeName struct {
	Kind window.ScopeKind `json:"kind"`
	ID   string           `json:"id"`
}

// keyID is the API key that asks; "" for every other kind of credential.
func (c caller) keyID() string {
	if c.principal.Method != identity.MethodAPIKey {
		return ""
	}
	return c.principal.KeyID
}

// values are what sub-scopes are found by. A call that names no cost centre is of the one that the ledger calls so.
func (c call) values() tenant.Values {
	return tenant.Values{CostCenter: cmp.Or(c.CostCenter, lineage.Unassigned), Agent: c.Agent, APIKey: c.APIKey}
}

// countIn notes the key and the kinds of sub-scopes in which the call is to count by the caller's contract, and returns
// their ceilings. The names follow from the call itself, so a hold and a receipt need to keep the kinds only.
func (c *call) countIn(who caller) []budgetstore.ScopeLimit {
	c.APIKey, c.Scopes = who.keyID(), ""
	for _, s := range who.contract.ScopesOf(c.values()) {
		c.Scopes += string(s.Kind.Letter())
	}
	return c.ceilings(who.contract)
}

// ceilings are those of the sub-scopes that the call counts in, by a contract that may be another by now: a sub-scope that
// it has no ceiling for is left out.
func (c call) ceilings(k *tenant.Contract) []budgetstore.ScopeLimit {
	var out []budgetstore.ScopeLimit
	for _, s := range k.ScopesOf(c.values()) {
		switch letter := string(s.Kind.Letter()); {
		case strings.Contains(c.Scopes, letter):
			out = append(out, scopeLimit(k, s))
		case strings.Contains(c.Scopes, strings.ToUpper(letter)):
			s.ID = window.OtherScope
			out = append(out, scopeLimit(k, s))
		}
	}
	return out
}

// scopeLimit is a sub-scope as the budget store checks it: its day is soft where the tenant's is.
func scopeLimit(k *tenant.Contract, s tenant.Counted) budgetstore.ScopeLimit {
	out := budgetstore.ScopeLimit{Kind: s.Kind, ID: s.ID, Star: s.Each, Minute: hardOrNone(s.Ceilings.Minute), Day: hardOrNone(s.Ceilings.Day),
		Month: hardOrNone(s.Ceilings.Month)}
	if k.SoftDay && s.Ceilings.Day > 0 {
		out.Day = admit.Soft(s.Ceilings.Day, k.Overrun)
	}
	return out
}

func hardOrNone(ceiling money.Nano) admit.Ceiling {
	if ceiling == 0 {
		return admit.NoCeiling()
	}
	return admit.Hard(ceiling)
}

// countedIn are the sub-scopes that the call was admitted in: their names by kind; nil for none.
func (c call) countedIn() map[string]string {
	if c.Scopes == "" {
		return nil
	}
	var out map[string]string
	names := c.values()
	for kind, name := range map[window.ScopeKind]string{window.Agent: names.Agent, window.APIKey: names.APIKey, window.CostCenter: names.CostCenter} {
		letter := string(kind.Letter())
		if strings.Contains(c.Scopes, strings.ToUpper(letter)) {
			name = window.OtherScope
		} else if !strings.Contains(c.Scopes, letter) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[string(kind)] = name
	}
	return out
}

// scopesHeld are the same, as the budget store names them.
func (c call) scopesHeld() []window.Scope {
	var out []window.Scope
	for kind, name := range c.countedIn() {
		out = append(out, window.Scope{Kind: window.ScopeKind(kind), ID: name})
	}
	slices.SortFunc(out, window.Scope.Compare)
	return out
}

// heldIn is the call as its hold says where it counts: where names were too many, the store has chosen the one that they
// share, which the call notes by a capital. changed says that it had not noted that yet.
func (c call) heldIn(scopes []window.Scope) (out call, changed bool) {
	var letters string
	for _, s := range scopes {
		letter := string(s.Kind.Letter())
		if s.ID == window.OtherScope {
			letter = strings.ToUpper(letter)
		}
		letters += letter
	}
	changed = strings.EqualFold(letters, c.Scopes) && letters != c.Scopes
	if changed {
		c.Scopes = letters
	}
	return c, changed
}

// scopeRef names a sub-scope to the budget store, which bounds those that the plan does not name.
func (s *Service) scopeRef(tenantID string, scope window.Scope) budgetstore.ScopeRef {
	if scope.Kind == window.Branch {
		return budgetstore.ScopeRef{Scope: scope}
	}
	k, _ := s.catalogs.tenants.At(tenantID, s.deps.Now())
	return budgetstore.ScopeRef{Scope: scope, Star: scope.ID != window.OtherScope && !k.Names(scope)}
}

// totalOf is a total of the tenant, of an execution or a branch of one, or of a sub-scope as the budget store takes it; false for those that no
// ceiling is about.
func (s *Service) totalOf(w *weirv1.WindowTotal) (budgetstore.ExternalTotal, bool) {
	kind := ledgercodec.ScopeOf(w.GetScopeKind())
	if kind == "" || kind == window.Branch || w.GetScopeId() == "" {
		return externalTotal(w)
	}
	total, concerns := windowTotal(w)
	total.SubScope = s.scopeRef(w.GetTenantId(), window.Scope{Kind: kind, ID: w.GetScopeId()})
	return total, concerns
}

// scopeRefs are the sub-scopes and branches of a journal entry. What does not name one is left out; the attributor writes no such thing.
func (s *Service) scopeRefs(tenantID string, keys []*weirv1.ScopeKey) []budgetstore.ScopeRef {
	var out []budgetstore.ScopeRef
	for _, k := range keys {
		if kind := ledgercodec.ScopeOf(k.GetKind()); kind != "" && k.GetId() != "" {
			out = append(out, s.scopeRef(tenantID, window.Scope{Kind: kind, ID: k.GetId()}))
		}
	}
	return out
}
