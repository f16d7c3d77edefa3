package tenant

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

func scope(kind window.ScopeKind, id string, minute money.Nano) Scope {
	return Scope{window.Scope{Kind: kind, ID: id}, Ceilings{Minute: minute}}
}

// A value counts in the entry of its own name, else in that of "*" for itself; an entry without ceilings exempts it.
func TestScopesOf(t *testing.T) {
	c := valid()
	for _, s := range []Scope{scope(window.CostCenter, "research", 1), scope(window.CostCenter, EachScope, 2), scope(window.CostCenter, "free", 0),
		scope(window.Agent, "planner", 3), scope(window.APIKey, EachScope, 4)} {
		c = c.WithScope(s)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name string
		of   Values
		want string
	}{
		{"by name", Values{CostCenter: "research"}, "cost_center research 1"},
		{"each for itself", Values{CostCenter: "ops"}, "cost_center ops 2 each"},
		{"nobody named one", Values{CostCenter: "unassigned"}, "cost_center unassigned 2 each"},
		{"exempt", Values{CostCenter: "free"}, ""},
		{"no entry", Values{Agent: "writer"}, ""},
		{"no value", Values{}, ""},
		{"the value *", Values{CostCenter: EachScope}, ""},
		{"no plain id", Values{CostCenter: "R&D"}, ""},
		{"all three, sorted", Values{CostCenter: "ops", Agent: "planner", APIKey: "k1"}, "agent planner 3, api_key k1 4 each, cost_center ops 2 each"},
	} {
		var got []string
		for _, s := range c.ScopesOf(one.of) {
			got = append(got, string(s.Kind)+" "+s.ID+" "+string('0'+rune(s.Ceilings.Minute))+map[bool]string{true: " each"}[s.Each])
		}
		if text := strings.Join(got, ", "); text != one.want {
			t.Errorf("%s: %q, want %q", one.name, text, one.want)
		}
	}
}

// A tenant's entry takes the place of its plan's, whose list stays as it is.
func TestWithScope(t *testing.T) {
	plan := valid().WithScope(scope(window.Agent, "a", 1)).WithScope(scope(window.Agent, "b", 2))
	own := plan.WithScope(scope(window.Agent, "a", 9)).WithScope(scope(window.APIKey, "k", 3))
	if plan.Scopes[0].Ceilings.Minute != 1 || len(plan.Scopes) != 2 {
		t.Errorf("the plan changed: %+v", plan.Scopes)
	}
	if len(own.Scopes) != 3 || own.Scopes[0].Ceilings.Minute != 9 || own.Equal(plan) || !plan.Equal(plan) {
		t.Errorf("%+v", own.Scopes)
	}
}

func TestValidateScopes(t *testing.T) {
	many := valid()
	for i := range MaxScopes + 1 {
		many = many.WithScope(scope(window.Agent, "a"+string('0'+rune(i)), 1))
	}
	for name, c := range map[string]Contract{
		"at most 64": many,
		"kind":       valid().WithScope(scope("team", "a", 1)),
		"A-Za-z0-9":  valid().WithScope(scope(window.Agent, "a b", 1)),
		"above 0":    valid().WithScope(scope(window.Agent, "a", -1)),
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := valid()
	twice.Scopes = slices.Repeat([]Scope{scope(window.Agent, "a", 1)}, 2)
	if err := twice.Validate(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
}
