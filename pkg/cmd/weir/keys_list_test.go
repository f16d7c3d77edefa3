package main

import (
	"strings"
	"testing"
)

// Goal: an operator finds a key by its tenant and sees whether it is revoked; the list proves nothing.
func TestKeysListOverTheBroker(t *testing.T) {
	broker(t)
	other := strings.Replace(oneTenant, "acme", "globex", 1)
	if a := weir(t, "", "tenants", "apply", file(t, "t.yaml", "tenants: ["+oneTenant+", "+other+"]")); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	list := func(args ...string) ([]keyView, string) {
		t.Helper()
		a := weir(t, "", append([]string{"keys", "list", "--json"}, args...)...)
		return decodeJSON[struct{ Keys []keyView }](t, a).Keys, a.out
	}
	if keys, out := list(); len(keys) != 0 || !strings.Contains(out, "[]") {
		t.Errorf("none: %s", out)
	}
	made := weir(t, "", "keys", "create", "--tenant", "acme,globex", "--label", "ci")
	text := strings.TrimSpace(made.out)
	id, secret, _ := strings.Cut(strings.TrimPrefix(text, "wk_"), "_")
	weir(t, "", "keys", "create", "--tenant", "globex")
	if keys, _ := list(); len(keys) != 2 {
		t.Errorf("%+v", keys)
	}
	keys, _ := list("--tenant", "acme")
	if len(keys) != 1 || keys[0].KeyID != id || strings.Join(keys[0].Tenants, ",") != "acme,globex" || keys[0].Label != "ci" || keys[0].CreatedAt.IsZero() || keys[0].RevokedAt != nil {
		t.Errorf("%+v", keys)
	}
	weir(t, "", "keys", "revoke", id)
	keys, out := list("--tenant", "acme")
	if len(keys) != 1 || keys[0].RevokedAt == nil || strings.Contains(out, secret) || strings.Contains(out, "hash") {
		t.Errorf("%s", out)
	}
	if keys, _ := list(); len(keys[0].Removed)+len(keys[1].Removed) != 0 {
		t.Errorf("nobody was removed: %+v", keys)
	}
	a := weir(t, "", "tenants", "apply", "--prune", file(t, "rest.yaml", "tenants: ["+oneTenant+"]"))
	if a.code != 0 || strings.Contains(a.err, "warning: key "+id) || !strings.Contains(a.err, "still acts for globex") {
		t.Errorf("%+v", a)
	}
	if keys, _ := list("--tenant", "acme"); strings.Join(keys[0].Removed, ",") != "globex" {
		t.Errorf("%+v", keys)
	}
	if a := weir(t, "", "keys", "list"); !strings.Contains(a.out, "acme,globex (removed)") {
		t.Errorf("%+v", a)
	}
	if a := weir(t, "", "keys", "list"); a.code != 0 || !strings.Contains(a.out, "acme,globex") || strings.Contains(a.out, secret) {
		t.Errorf("%+v", a)
	}
}
