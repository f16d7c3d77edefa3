package tenantsfile

import (
	"strings"
	"testing"
)

// Mistakes are told in the words of the file, each on a line of its own, never in those of the program.
func TestExplains(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"misspelt", "tenants:\n  - id: a\n    celings: {day_usd: 1}\n", []string{`line 3: unknown field "celings"; did you mean "ceilings"?`}},
		{"unlike anything", "tenants:\n  - id: a\n    colour: red\n", []string{`line 3: unknown field "colour"`}},
		{"misspelt in limits", "tenants:\n  - id: a\n    limits:\n      concurency: 1\n", []string{`line 4: unknown field "concurency"; did you mean "concurrency"?`}},
		{"misspelt in execution", "plans:\n  p:\n    execution: {max_costs: 1}\ntenants: [{id: a}]\n", []string{`line 3: unknown field "max_costs"; there are: max_calls, max_cost_usd, max_depth`}},
		{"a field of elsewhere", "tenants:\n  - id: a\n    identities: {concurrency: 1}\n", []string{`line 3: unknown field "concurrency"; there are: jwt, mtls, slack, telegram`}},
		{"misspelt in a scope", "tenants:\n  - id: a\n    scopes: [{team: x}]\n", []string{`line 3: unknown field "team"; there are: agent, api_key, ceilings, cost_center`}},
		{"misspelt and misshaped", "tenants:\n  - id: a\n    soft: {}\n    limit: {}\n", []string{`line 4: unknown field "limit"; did you mean "limits"?`, "line 3: a mapping does not belong here"}},
		{"two", "tenant: []\ntenants:\n  - id: a\n    plans: x\n", []string{"\nline 1: unknown field \"tenant\"; did you mean \"tenants\"?", "\nline 4: unknown field \"plans\""}},
		{"value for a mapping", "tenants:\n  - id: a\n    limits: many\n", []string{"line 3: the value `many` does not belong here"}},
		{"list for a mapping", "tenants:\n  - id: a\n    ceilings: [1, 2]\n", []string{"line 3: a list does not belong here"}},
		{"mapping for a value", "tenants:\n  - id: {a: 1}\n", []string{"line 2: expected a single value"}},
		{"unknown plan", "plans: {pro: {}, free: {}}\ntenants:\n  - {id: a, plan: por}\n", []string{`tenant "a" (line 3): plan "por" is not under plans: (free, pro)`}},
		{"all that is missing", "tenants: [{id: a}]", []string{
			"\ntenant \"a\" (line 1): limits.concurrency is mandatory", "\ntenant \"a\" (line 1): ceilings.day_usd is mandatory",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.yaml))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %q", want, err)
				}
			}
			if strings.Contains(err.Error(), "struct") || strings.Contains(err.Error(), "tenantsfile.") || strings.Contains(err.Error(), "!!") {
				t.Errorf("Go's words: %q", err)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"ac", "abc", 1}, {"abc", "", 3}, {"celings", "ceilings", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
