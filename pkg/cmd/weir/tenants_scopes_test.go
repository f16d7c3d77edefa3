package main

import (
	"strings"
	"testing"
)

// Scopes come back under the names of the tenants file, and a new key's id is what an entry names.
func TestScopesOverTheBroker(t *testing.T) {
	broker(t)
	one := strings.TrimSuffix(oneTenant, "}")
	apply := func(scopes string) answer {
		return weir(t, "", "tenants", "apply", file(t, "t.yaml", "tenants: ["+one+", scopes: ["+scopes+"]}]"))
	}
	if a := apply(`{cost_center: research, ceilings: {minute_usd: 1}}`); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	a := weir(t, "", "keys", "create", "--tenant", "acme")
	note, id, ok := strings.Cut(strings.TrimSpace(a.err), ": ")
	if a.code != 0 || !ok || !strings.Contains(note, "key id") || !strings.HasPrefix(a.out, "wk_"+id+"_") || strings.Count(a.out, "\n") != 1 {
		t.Fatalf("%+v", a)
	}
	if a := apply(`{api_key: ` + id + `, ceilings: {month_usd: 9}}, {agent: "*", ceilings: {day_usd: 2}}, {agent: trusted}`); a.code != 0 || a.out != "acme changed\n" {
		t.Fatalf("%+v", a)
	}
	if a := apply(`{api_key: ` + strings.TrimSpace(a.out) + `}`); a.code != 2 || !strings.Contains(a.err, "never the key") || strings.Contains(a.err, "wk_"+id+"_") {
		t.Errorf("a whole key: %+v", a)
	}
	shown := decodeJSON[struct {
		Tenants []tenantView
	}](t, weir(t, "", "tenants", "show", "acme", "--json")).Tenants[0].Scopes
	want := []scopeView{{Agent: "*", Ceilings: ceilingsView{DayUSD: "2"}}, {Agent: "trusted"}, {APIKey: id, Ceilings: ceilingsView{MonthUSD: "9"}}}
	if len(shown) != len(want) {
		t.Fatalf("%+v", shown)
	}
	for i := range want {
		if shown[i] != want[i] {
			t.Errorf("%+v, want %+v", shown[i], want[i])
		}
	}
	if a := weir(t, "", "tenants", "show"); !strings.Contains(a.out, "TENANT") || !strings.Contains(a.out, "api_key "+id) || !strings.Contains(a.out, "none") {
		t.Errorf("%s", a.out)
	}
}
