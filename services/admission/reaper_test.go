//go:build integration

package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
)

// A hold that this build cannot read, say of a later one, keeps no other hold of the tenant from being ended.
func TestReaperPassesWhatItCannotRead(t *testing.T) {
	d := newDesk(t, one(contract()))
	status, out := d.call("acme", "POST", "/v1/reservations", object{"reservation_id": "first", "provider": "openai", "model": "flat", "estimate": object{"max_output_tokens": 30}})
	d.want("reserve", status, out, 201)
	of, err := d.svc.of("acme")
	d.must(err)
	reply, err := d.svc.counters.Reserve(t.Context(), budgetstore.Request{Tenant: of, ID: "strange", Estimate: admit.Estimate{Nanos: 1}, Context: []byte("\xff"),
		Limits: limitsOf(d.svc.catalogs.tenants.InForce("acme", d.clock.now())), Calendar: d.svc.calendar(d.clock.now(), time.UTC), Lease: time.Second})
	if err != nil || reply.Verdict != budgetstore.Admitted {
		t.Fatalf("%+v, %v", reply, err)
	}
	d.clock.advance(time.Hour)
	d.compareEpoch()
	if err := d.svc.reapOnce(context.Background()); err == nil || !strings.Contains(err.Error(), "strange") {
		t.Errorf("%v", err)
	}
	status, out = d.call("acme", "GET", "/v1/reservations/first", nil)
	d.want("the other one", status, out, 200, "state", "expired")
}
