package admission

import (
	"cmp"
	"strings"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/identity"
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
	var out []budgetstore.ScopeLimit
	for _, s := range who.contract.ScopesOf(c.values()) {
		c.Scopes += kindLetter(s.Kind)
		out = append(out, scopeLimit(who.contract, s))
	}
	return out
}

// scopeLimit is a sub-scope as the budget store checks it: its day is soft where the tenant's is.
func scopeLimit(k tenant.Contract, s tenant.Counted) budgetstore.ScopeLimit {
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

// counted are the sub-scopes that the call was admitted in: their names by kind; nil for none.
func (c call) counted() map[string]string {
	var out map[string]string
	names := c.values()
	for kind, name := range map[window.ScopeKind]string{window.Agent: names.Agent, window.APIKey: names.APIKey, window.CostCenter: names.CostCenter} {
		if !strings.Contains(c.Scopes, kindLetter(kind)) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[string(kind)] = name
	}
	return out
}

// kindLetter is how a hold keeps a kind; its place in Redis' keys is the same.
func kindLetter(k window.ScopeKind) string {
	switch k {
	case window.CostCenter:
		return "c"
	case window.Agent:
		return "a"
	default:
		return "k"
	}
}
