//go:build integration

package admission

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
)

// Goal: a proof works for what it proves and for nothing else, and nothing in a body says who asks. Method: an open
// reservation of a tenant; one row an attack on it, by another tenant or with a proof of something else; afterwards nothing
// has changed.
func TestProofsOfOthers(t *testing.T) {
	d := newDesk(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	ask := func(who, id string, more object) object {
		t.Helper()
		body := object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": 30}}
		for k, v := range more {
			body[k] = v
		}
		status, out := d.call(who, "POST", "/v1/reservations", body)
		d.want("reserve", status, out, 201)
		return out
	}
	mine, other, theirs := ask("acme", "r1", nil), ask("acme", "r2", nil), ask("beta", "r1", nil)
	foreign, err := identity.NewSecret(bytes.Repeat([]byte("x"), 32))
	d.must(err)
	r, err := identity.VerifyReceipt(d.secret, fmt.Sprint(mine["receipt"]))
	d.must(err)
	forged, err := identity.SignReceipt(foreign, r)
	d.must(err)
	token, err := d.tokenKey.SignExecutionToken(identity.Execution{Tenant: "acme", Root: "x", ExpiresAt: d.clock.now().Add(time.Hour)}, d.clock.now())
	d.must(err)
	good := fmt.Sprint(mine["receipt"])
	head, tail, _ := strings.Cut(good, ".")
	before := fmt.Sprint(d.call("acme", "GET", "/v1/budget", nil))
	for name, receipt := range map[string]any{
		"of another reservation": other["receipt"], "of another tenant's of the same id": theirs["receipt"], "signed by another": forged, "an execution token": token,
		"altered": head[:len(head)-2] + "AA." + tail, "without its signature": head, "twice": good + good, "a number": 7, "an object": object{"t": "acme"},
	} {
		for _, what := range []string{"settle", "release", "extend"} {
			status, out := d.call("acme", "POST", "/v1/reservations/r1/"+what, object{"receipt": receipt})
			d.want(what+" with a receipt "+name, status, out, 400, "code", "invalid_argument", "field", "receipt")
		}
	}
	for _, what := range []string{"settle", "release", "extend"} { // beta's credential does not reach acme's r2, receipt or not
		status, out := d.call("beta", "POST", "/v1/reservations/r2/"+what, object{})
		d.want(what+" of another tenant's", status, out, 404, "code", "reservation_not_found")
		status, out = d.call("beta", "POST", "/v1/reservations/r2/"+what, object{"receipt": other["receipt"]})
		d.want(what+" of another tenant's, with its receipt", status, out, 400)
	}
	status, out := d.call("beta", "GET", "/v1/reservations/r2", nil)
	d.want("state of another tenant's", status, out, 404)

	for name, token := range map[string]any{
		"another tenant's": token, "a receipt": mine["receipt"], "an API key": d.keys["beta"],
	} {
		want := map[bool]int{true: 403, false: 401}[name == "another tenant's"]
		status, out := d.call("beta", "POST", "/v1/reservations", object{"reservation_id": "t", "provider": "openai", "model": "flat",
			"estimate": object{"max_output_tokens": 1}, "execution_token": token})
		d.want("reserve under "+name, status, out, want)
		status, out = d.call("beta", "POST", "/v1/executions", object{"parent_token": token, "agent_id": "a"})
		d.want("a child of "+name, status, out, want)
	}
	for _, member := range []string{"tenant", "tenant_id", "X-Weir-Tenant", "subject"} {
		for path, body := range map[string]object{
			"/v1/reservations":            {"reservation_id": "t", "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": 1}},
			"/v1/executions":              {"agent_id": "a"},
			"/v1/reservations/r1/settle":  {"meters": object{"output_tokens": 1}},
			"/v1/reservations/r1/release": {}, "/v1/reservations/r1/extend": {},
		} {
			body[member] = "beta"
			status, out := d.call("acme", "POST", path, body)
			d.want(path+" with "+member, status, out, 400, "code", "invalid_argument", "field", member)
		}
	}
	if after := fmt.Sprint(d.call("acme", "GET", "/v1/budget", nil)); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
	if n := len(d.outboxRows()); n != 0 {
		t.Errorf("%d events", n)
	}
}
