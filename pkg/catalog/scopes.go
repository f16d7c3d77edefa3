package catalog

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func encodeScopes(scopes []tenant.Scope) []*weirv1.TenantScope {
	var out []*weirv1.TenantScope
	for _, s := range scopes {
		out = append(out, &weirv1.TenantScope{Kind: string(s.Kind), Id: s.ID, Ceilings: &weirv1.TenantCeilings{
			MinuteUsd: orEmpty(s.Ceilings.Minute), DayUsd: orEmpty(s.Ceilings.Day), MonthUsd: orEmpty(s.Ceilings.Month),
		}})
	}
	return out
}

// orEmpty is the amount of a ceiling, "" for none.
func orEmpty(n money.Nano) string {
	if n == 0 {
		return ""
	}
	return n.USD().String()
}

func decodeScopes(scopes []*weirv1.TenantScope) ([]tenant.Scope, error) {
	var out []tenant.Scope
	for _, m := range scopes {
		s := tenant.Scope{Scope: window.Scope{Kind: window.ScopeKind(m.GetKind()), ID: m.GetId()}}
		for _, f := range []struct {
			text string
			to   *money.Nano
		}{
			{m.GetCeilings().GetMinuteUsd(), &s.Ceilings.Minute}, {m.GetCeilings().GetDayUsd(), &s.Ceilings.Day}, {m.GetCeilings().GetMonthUsd(), &s.Ceilings.Month},
		} {
			if f.text == "" {
				continue
			}
			if err := readNano(f.text, f.to); err != nil {
				return nil, fmt.Errorf("scope %s %q: %w", s.Kind, s.ID, err)
			}
		}
		out = append(out, s)
	}
	return out, nil
}
