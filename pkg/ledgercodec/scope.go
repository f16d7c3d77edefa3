package ledgercodec

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func scopesToProto(scopes []window.Scope) []*weirv1.ScopeKey {
	var out []*weirv1.ScopeKey
	for _, s := range scopes {
		out = append(out, &weirv1.ScopeKey{Kind: ScopeKind(s.Kind), Id: s.ID})
	}
	return out
}

// readScopes refuses an entry that would count twice in one sub-scope, or in one that nobody can name. Branches of an
// execution may be several, each once.
func readScopes(e *ledger.Entry, keys []*weirv1.ScopeKey) error {
	seen := map[window.Scope]bool{}
	for _, k := range keys {
		s := window.Scope{Kind: ScopeOf(k.GetKind()), ID: k.GetId()}
		only := s
		if s.Kind != window.Branch {
			only.ID = ""
		}
		if s.Kind == "" || s.ID == "" || seen[only] {
			return fmt.Errorf("sub-scope %s %q is unknown, unnamed or not the only one", k.GetKind(), k.GetId())
		}
		seen[only] = true
		e.Scopes = append(e.Scopes, s)
	}
	return nil
}
