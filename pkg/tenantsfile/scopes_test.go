package tenantsfile

import (
	"fmt"
	"strings"
	"testing"
)

const scoped = `
plans:
  pro:
    limits: {concurrency: 50}
    ceilings: {minute_usd: 10, day_usd: 100, month_usd: 1000}
    scopes:
      - {cost_center: research, ceilings: {minute_usd: 1.00, day_usd: 20}}
      - {agent: "*", ceilings: {day_usd: 5}}
tenants:
  - {id: inherits, plan: pro}
  - id: overrides
    plan: pro
    scopes:
      - {cost_center: research, ceilings: {month_usd: 300.000000001}}
      - {agent: trusted}
      - {api_key: wk_abcdefghij234567, ceilings: {minute_usd: 2}}
`

// A tenant inherits its plan's scopes one by one; an entry of the same name takes the plan's place, whole.
func TestScopesInheritAndOverride(t *testing.T) {
	f, err := Parse([]byte(scoped))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"inherits":  "agent * 0 5000000000 0; cost_center research 1000000000 20000000000 0; ",
		"overrides": "agent * 0 5000000000 0; agent trusted 0 0 0; api_key abcdefghij234567 2000000000 0 0; cost_center research 0 0 300000000001; ",
	} {
		var got strings.Builder
		for _, s := range f.Contracts[id].Scopes {
			fmt.Fprintf(&got, "%s %s %d %d %d; ", s.Kind, s.ID, s.Ceilings.Minute, s.Ceilings.Day, s.Ceilings.Month)
		}
		if got.String() != want {
			t.Errorf("%s: %s\nwant %s", id, got.String(), want)
		}
	}
}

// What is wrong with a scope is told with its line; a whole key is refused without being repeated.
func TestScopesRefused(t *testing.T) {
	for _, c := range []struct{ name, entries, want string }{
		{"no name", "- {ceilings: {day_usd: 1}}", "line 6: scopes: each entry names one of cost_center, agent, api_key"},
		{"two names", "- {agent: a, cost_center: b}", "line 6: scopes: each entry names one"},
		{"twice", "- {agent: a}\n      - {agent: a, ceilings: {day_usd: 1}}", `line 7: scopes: agent "a" stands in line 6 already`},
		{"odd name", "- {agent: 'a b'}", "line 6: scopes: agent must be * or 1-128"},
		{"zero", "- {agent: a, ceilings: {day_usd: 0}}", "line 6: scopes: a ceiling must be above 0"},
		{"no amount", "- {agent: a, ceilings: {day_usd: lots}}", "line 6: amount in USD"},
		{"unknown field", "- {agnet: a}", `line 6: unknown field "agnet"; did you mean "agent"?`},
		{"unknown ceiling", "- {agent: a, ceilings: {hour_usd: 1}}", `line 6: unknown field "hour_usd"`},
		{"whole key", "- {api_key: wk_abcdefghij234567_secret2}", "line 6: scopes: api_key takes the key's id"},
		{"too many", strings.Repeat("- {agent: %d}\n      ", 65), "at most 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries := c.entries
			for i := 0; strings.Contains(entries, "%d"); i++ {
				entries = strings.Replace(entries, "%d", fmt.Sprintf("a%d", i), 1)
			}
			text := "tenants:\n  - id: a\n    limits: {concurrency: 1}\n    ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}\n    scopes:\n      " + entries
			_, err := Parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret2") {
				t.Fatalf("want %q, got %v", c.want, err)
			}
		})
	}
}
