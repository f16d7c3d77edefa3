package main

import (
	"reflect"
	"strings"
	"testing"
)

const wholeTenant = `tenants:
  - id: acme
    limits: {concurrency: 20, input_tokens_per_minute: 5000, open_executions: 7}
    ceilings: {minute_usd: 1, day_usd: 2, month_usd: 3}
    count: billed
    soft: [day]
    overrun_percent: 15
    month: rolling30
    unknown_price: dearest
    execution: {max_cost_usd: 0.5, max_depth: 3}
    identities: {slack: [T0123]}
    scopes: [{agent: "*", ceilings: {day_usd: 1}}]
  - {id: gamma, limits: {concurrency: 5}, ceilings: {minute_usd: 1, day_usd: 2, month_usd: 3}, soft: []}
  - id: beta
    limits: {concurrency: 5, requests_per_minute: 60}
    ceilings: {minute_usd: 1, day_usd: 2, month_usd: 3}
`

// Goal: what a contract says is shown, all of it; a limit that is not set is none, and not 0.
func TestTenantsShowIsWhole(t *testing.T) {
	broker(t)
	if a := weir(t, "", "tenants", "apply", file(t, "t.yaml", wholeTenant)); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	a := weir(t, "", "tenants", "show")
	for _, want := range []string{"none  5000       none", "5            60    none       none", "overrun_percent: 15; count: billed; month: rolling30; unknown_price: dearest; " +
		"open_executions: 7; execution: max_cost_usd $0.5, max_depth 3, max_calls none; identities: slack:T0123\n", "agent *", "gamma   soft: []\n"} {
		if !strings.Contains(a.out, want) {
			t.Errorf("no %q in\n%s", want, a.out)
		}
	}
	if strings.Count(a.out, "beta") != 1 {
		t.Errorf("beta says nothing beside the table:\n%s", a.out)
	}
	got := decodeJSON[struct{ Tenants []tenantView }](t, weir(t, "", "tenants", "show", "--json")).Tenants
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	acme, beta := got[0], got[1]
	if acme.RPM != nil || *acme.InputTPM != 5000 || *acme.OpenExecutions != 7 || acme.Count != "billed" || acme.Overrun != "15" || acme.Month != "rolling30" || acme.UnknownPrice != "dearest" ||
		*acme.Execution.MaxCostUSD != "0.5" || *acme.Execution.MaxDepth != 3 || acme.Execution.MaxCalls != nil || !reflect.DeepEqual(acme.Identities, []string{"slack:T0123"}) || acme.EffectiveFrom == "" {
		t.Errorf("%+v", acme)
	}
	if *beta.RPM != 60 || beta.Execution != (executionView{}) || beta.Scopes == nil || beta.Month != "calendar" || beta.Count != "raw" {
		t.Errorf("%+v", beta)
	}
}
