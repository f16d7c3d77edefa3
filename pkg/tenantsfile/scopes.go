package tenantsfile

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
)

// scopeYAML is one entry of `scopes`: exactly one of the three names, and the ceilings of its dollars. Without any, the
// name is exempt from the entry "*".
type scopeYAML struct {
	CostCenter scalar       `yaml:"cost_center"`
	Agent      scalar       `yaml:"agent"`
	APIKey     scalar       `yaml:"api_key"`
	Ceilings   ceilingsYAML `yaml:"ceilings"`
}

type ceilingsYAML struct {
	MinuteUSD scalar `yaml:"minute_usd"`
	DayUSD    scalar `yaml:"day_usd"`
	MonthUSD  scalar `yaml:"month_usd"`
}

// applyScopes lays a list over c's: an entry takes the place of one with the same name, whole; the others stay.
func applyScopes(c *tenant.Contract, list []scopeYAML) error {
	lines := map[window.Scope]int{}
	for _, y := range list {
		s, line, err := y.scope()
		if err != nil {
			return err
		}
		if first, twice := lines[s.Scope]; twice {
			return fmt.Errorf("line %d: scopes: %s %q stands in line %d already", line, s.Kind, s.ID, first)
		}
		lines[s.Scope] = line
		*c = c.WithScope(s)
	}
	return nil
}

func (y scopeYAML) scope() (s tenant.Scope, line int, err error) {
	named := 0
	for _, f := range []struct {
		kind window.ScopeKind
		name scalar
	}{{window.CostCenter, y.CostCenter}, {window.Agent, y.Agent}, {window.APIKey, y.APIKey}} {
		if f.name.line > 0 {
			named, line = named+1, f.name.line
			s.Kind, s.ID = f.kind, f.name.text
		}
	}
	if named != 1 {
		line = cmp.Or(line, y.Ceilings.MinuteUSD.line, y.Ceilings.DayUSD.line, y.Ceilings.MonthUSD.line)
		return s, line, fmt.Errorf("%sscopes: each entry names one of cost_center, agent, api_key", atLine(line))
	}
	if s.Kind == window.APIKey {
		if s.ID = strings.TrimPrefix(s.ID, "wk_"); strings.Contains(s.ID, "_") {
			// Not quoted: what stands there may be the secret.
			return s, line, fmt.Errorf("line %d: scopes: api_key takes the key's id, as `weir keys create` prints it, never the key", line)
		}
	}
	if s.ID != tenant.EachScope && !tenant.ValidID(s.ID) {
		return s, line, fmt.Errorf("line %d: scopes: %s must be * or 1-128 of A-Za-z0-9._:-, not dots alone", line, s.Kind)
	}
	for _, f := range []struct {
		from scalar
		to   *money.Nano
	}{
		{y.Ceilings.MinuteUSD, &s.Ceilings.Minute}, {y.Ceilings.DayUSD, &s.Ceilings.Day}, {y.Ceilings.MonthUSD, &s.Ceilings.Month},
	} {
		if err := f.from.nano(f.to); err != nil {
			return s, line, err
		}
		if f.from.text != "" && *f.to <= 0 {
			return s, line, fmt.Errorf("line %d: scopes: a ceiling must be above 0; leave it out for none", f.from.line)
		}
	}
	return s, line, nil
}

func atLine(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", n)
}
