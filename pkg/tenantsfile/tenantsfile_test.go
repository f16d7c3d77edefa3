package tenantsfile

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

const sample = `
plans:
  pro:
    limits: {requests_per_minute: 600, concurrency: 50}
    ceilings: {minute_usd: 1.00, day_usd: 100, month_usd: 1000.000000001}
    markup_percent: 12.5
    execution: {max_cost_usd: 5.00, max_depth: 4, max_calls: 200}
    unknown_price: dearest
tenants:
  - id: acme
    plan: pro
  - id: trial
    plan: pro
    limits: {concurrency: 1}
    ceilings: {month_usd: "0.10"}
    soft: []
    timezone: Europe/Budapest
    count: billed
    unknown_price: refuse
    identities: {slack: [T1], jwt: [acme-inc]}
`

// A tenant inherits its plan's values and overrides some; amounts come through to the nano-dollar.
func TestParsePlansAndOverrides(t *testing.T) {
	f, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	acme, trial := f.Contracts["acme"], f.Contracts["trial"]
	if acme.Ceilings.Month != 1000_000000001 || acme.Limits.Concurrency != 50 || !acme.SoftDay || acme.Markup.String() != "12.5" {
		t.Errorf("acme: %+v", acme)
	}
	if acme.Overrun.String() != tenant.DefaultOverrunPercent || acme.Count != tenant.CountRaw || acme.Ladder != [3]int32{50, 80, 100} {
		t.Errorf("acme's defaults: %+v", acme)
	}
	if trial.Ceilings.Month != 100_000_000 || trial.Ceilings.Day != 100_000000000 || trial.Limits.Concurrency != 1 || trial.SoftDay {
		t.Errorf("trial: %+v", trial)
	}
	if trial.Timezone != "Europe/Budapest" || trial.Count != tenant.CountBilled || len(trial.Identities) != 2 || trial.Identities[0] != "slack:T1" {
		t.Errorf("trial: %+v", trial)
	}
	if !acme.HoldsUnpriced() || trial.HoldsUnpriced() {
		t.Errorf("unknown_price: %q of the plan, %q of the tenant", acme.UnknownPrice, trial.UnknownPrice)
	}
	if got := strings.Join(f.IDs(), ","); got != "acme,trial" {
		t.Errorf("ids %s", got)
	}
}

// Every mistake is refused in words that name the line or the field (field report 47: a dropped field is a lie).
func TestParseRefuses(t *testing.T) {
	ok := "ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}, limits: {concurrency: 1}"
	for _, c := range []struct{ name, yaml, want string }{
		{"empty", "", "empty"},
		{"no tenants", "tenants: []", "no tenant"},
		{"unknown field", "tenants:\n  - id: a\n    budget: 3\n", "line 3"},
		{"unknown nested field", "tenants:\n  - {id: a, limits: {concurency: 1}}\n", "concurency"},
		{"no concurrency", "tenants: [{id: a, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}]", "limits.concurrency"},
		{"no ceiling", "tenants: [{id: a, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1}}]", "month_usd"},
		{"bad amount", "tenants:\n- id: a\n  limits: {concurrency: 1}\n  ceilings: {minute_usd: lots}\n", "line 4"},
		{"ten decimals", "tenants: [{id: a, ceilings: {minute_usd: 0.0000000001}}]", "nine decimals"},
		{"beyond the bound", "tenants: [{id: a, ceilings: {minute_usd: 9007200}}]", "9007199"},
		{"bad id", "tenants: [{id: 'a b', " + ok + "}]", "A-Za-z0-9"},
		{"twice", "tenants: [{id: a, " + ok + "}, {id: a, " + ok + "}]", "twice"},
		{"unknown plan", "tenants: [{id: a, plan: gold, " + ok + "}]", "gold"},
		{"time zone", "tenants: [{id: a, timezone: Mars/Base, " + ok + "}]", "Mars/Base"},
		{"soft month", "tenants: [{id: a, soft: [month], " + ok + "}]", "soft"},
		{"two documents", "tenants: [{id: a, " + ok + "}]\n---\nx: 1", "one YAML document"},
		{"identity of two", "tenants: [{id: a, " + ok + ", identities: {slack: [T1]}}, {id: b, " + ok + ", identities: {jwt: [T1], slack: [T1]}}]", "slack:T1 is tenant \"a\"'s already"},
		{"empty identity", "tenants: [{id: a, " + ok + ", identities: {mtls: ['']}}]", "identities"},
		{"count", "tenants: [{id: a, count: net, " + ok + "}]", "count"},
		{"unknown_price", "tenants: [{id: a, unknown_price: free, " + ok + "}]", "unknown_price must be refuse or dearest"},
		{"ladder", "tenants: [{id: a, ladder: [80, 50, 100], " + ok + "}]", "rising"},
		{"id of dots", "tenants: [{id: '..', " + ok + "}]", "dots alone"},
		{"id of a null", "tenants: [{id: None, " + ok + "}]", "missing value"},
		{"id null", "tenants: [{id: 'null', " + ok + "}]", "missing value"},
		{"overrun", "tenants:\n- id: a\n  overrun_percent: -1\n  limits: {concurrency: 1}\n", "line 3: overrun_percent is -1; it must be at least 0"},
		{"markup", "tenants: [{id: a, markup_percent: -100.5, " + ok + "}]", "markup_percent: number out of range: percent -100.5 is not within -100"},
		{"beyond a counter", "tenants:\n- id: a\n  limits:\n    concurrency: 9007199254740992\n", `line 4: limits.concurrency is "9007199254740992", not a whole number from 0 to 9007199254740991`},
		{"beyond a counter, of a plan without tenants", "plans:\n  big: {limits: {input_tokens_per_minute: 9007199254740993}}\ntenants: [{id: a, " + ok + "}]", `plan "big": line 2: limits.input_tokens_per_minute is`},
		{"beyond any integer", "tenants: [{id: a, execution: {max_calls: 99999999999999999999}}]", `execution.max_calls is "99999999999999999999"`},
		{"beyond a depth", "tenants: [{id: a, execution: {max_depth: 2147483648}}]", "execution.max_depth is \"2147483648\", not a whole number from 0 to 2147483647"},
		{"below zero", "tenants: [{id: a, limits: {requests_per_minute: -1}}]", "limits.requests_per_minute"},
		{"beyond the bound, of an execution", "tenants: [{id: a, execution: {max_cost_usd: 9007199.254740992}}]", "line 1: 9007199.254740992 USD is beyond"},
		{"beyond the bound, of a scope", "tenants: [{id: a, scopes: [{agent: x, ceilings: {day_usd: 9007199.254740992}}], " + ok + "}]", "line 1: 9007199.254740992 USD is beyond"},
		{"beyond a percentage", "tenants: [{id: a, overrun_percent: 100001, " + ok + "}]", "line 1: overrun_percent"},
		{"beyond a step", "tenants: [{id: a, ladder: [50, 80, 2147483648], " + ok + "}]", "line 1: the value `2147483648` does not belong here"},
		{"whole number", "tenants: [{id: a, limits: {concurrency: 1.5}}]", "whole number"},
		{"a sign before a number", "tenants: [{id: a, limits: {concurrency: +1}}]", "whole number"},
		{"a sign before an amount", "tenants: [{id: a, limits: {concurrency: 1}, ceilings: {minute_usd: +1, day_usd: 1, month_usd: 1}}]", "line 1: amount in USD"},
		{"a sign before a percentage", "tenants: [{id: a, limits: {concurrency: 1}, markup_percent: +1}]", "markup_percent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.yaml))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error with %q, got %v", c.want, err)
			}
		})
	}
}

// FuzzParse: no input makes the reader panic, and what it accepts is valid.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("tenants: [{id: a}]")
	f.Add(laddered)
	f.Add("tenants: [{id: a, ladder: &l {<<: [*l, *l], texts: {en: *l}}}]")
	f.Fuzz(func(t *testing.T, s string) {
		file, err := Parse([]byte(s))
		if err != nil {
			return
		}
		for id, c := range file.Contracts {
			if err := c.Validate(); err != nil {
				t.Errorf("%s accepted: %v", id, err)
			}
		}
	})
}

// Goal: a second file cannot take an identity that a tenant outside it has: admission would give it to neither.
func TestTakenIdentities(t *testing.T) {
	f, err := Parse([]byte(`tenants:
  - {id: b, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}, identities: {slack: [T1], telegram: ["7:9"], jwt: [org]}}`))
	if err != nil {
		t.Fatal(err)
	}
	lists := func(identity string, removed bool) tenant.Contract {
		return tenant.Contract{Identities: []string{identity}, Removed: removed}
	}
	for _, identity := range []string{"slack:T1", "telegram:7:9", "jwt:org"} {
		err := f.Taken(map[string]tenant.Contract{"a": lists(identity, false)})
		if err == nil || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), identity) {
			t.Errorf("%s: %v", identity, err)
		}
	}
	if err := f.Taken(map[string]tenant.Contract{"a": lists("slack:T1", true), "b": lists("jwt:org", false), "c": lists("mtls:T1", false)}); err != nil {
		t.Errorf("one that was removed, the tenant's own, or another kind: %v", err)
	}
}

// Goal: what is allowed but hardly meant is told, and nothing else.
func TestWarnings(t *testing.T) {
	f, err := Parse([]byte(`tenants:
  - {id: a, limits: {concurrency: 1}, overrun_percent: 0, markup_percent: -100, ceilings: {minute_usd: 3, day_usd: 2, month_usd: 1}}
  - {id: b, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(f.Warnings(), "; ")
	if got != `tenant "a": month_usd 1 is below day_usd 2; tenant "a": day_usd 2 is below minute_usd 3` {
		t.Error(got)
	}
}
