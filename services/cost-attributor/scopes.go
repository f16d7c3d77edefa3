package costattributor

import (
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/usageevent"
)

// keyOf is the API key that reserved, or that sent the event through admission: believed where admission signed.
func keyOf(v verified) string {
	if !v.signed {
		return ""
	}
	return v.event.Data.APIKeyID
}

// stamps are the sub-scopes and branches that an event counts in: of a reservation those that its hold counted in, which admission
// says, so that own amounts stand where Redis added them, whatever the contract has become; else those of the contract in
// force at the event's time, and the branches of its execution token. A termination costs nothing and counts in none.
func stamps(v verified, contract tenant.Contract) []ledger.Stamp {
	if v.event.Type == usageevent.TypeTermination {
		return nil
	}
	if r := v.event.Data.Reservation; v.signed && r != nil {
		var out []ledger.Stamp
		for kind, id := range r.Scopes { // NewCandidate sorts them
			s := window.Scope{Kind: window.ScopeKind(kind), ID: id}
			out = append(out, ledger.Stamp{Scope: s, Each: !contract.Names(s)})
		}
		return append(out, branches(r.Branches)...)
	}
	out := branches(v.branches)
	for _, s := range contract.ScopesOf(tenant.Values{CostCenter: v.lineage.CostCenter, Agent: v.lineage.AgentID, APIKey: keyOf(v)}) {
		out = append(out, ledger.Stamp{Scope: window.Scope{Kind: s.Kind, ID: s.ID}, Each: s.Each})
	}
	return out
}

func branches(ids []string) []ledger.Stamp {
	var out []ledger.Stamp
	for _, id := range ids {
		out = append(out, ledger.Stamp{Scope: window.Scope{Kind: window.Branch, ID: id}})
	}
	return out
}
