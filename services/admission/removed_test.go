//go:build integration

package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// Goal: a tenant that was removed ends what it was admitted to, over HTTP and gRPC, at its contract of then; nothing new is admitted.
func TestRemovedTenantEndsItsCalls(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": contract(), "beta": contract()})
	b := w.startBoth()
	key := w.keys["acme"]
	for _, id := range []string{"r1", "r2", "r3", "r4", "r5"} {
		status, out := b.reserve("acme", id, 50)
		w.want("reserve", status, out, 201)
	}
	first := contract()
	first.Timezone = w.zone.String()
	gone := first
	gone.Removed, gone.EffectiveFrom = true, time.Now().UTC()
	value, err := catalog.EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{first, gone}})
	w.must(err)
	w.publish(bus.NewRecord(topics.CatalogTenants, "acme", []byte("acme"), value))
	w.eventually("removed", func() error {
		if status, out, _ := b.do("GET", "/v1/budget", key, nil); status != 403 || out["code"] != "forbidden_tenant" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	used := object{"meters": object{"output_tokens": 7}}
	for _, c := range []struct {
		what string
		got  heard
	}{
		{"settle over HTTP", b.overHTTP(key, ask{"Settle", "r1", used})}, {"the same again", b.overHTTP(key, ask{"Settle", "r1", used})},
		{"settle over gRPC", b.overGRPC(key, ask{"Settle", "r2", used})},
	} {
		if c.got.code != "ok" || fmt.Sprint(c.got.raw["cost_usd"]) != "0.07" {
			t.Errorf("%s: %v", c.what, c.got.raw)
		}
	}
	for what, got := range map[string]heard{"release over HTTP": b.overHTTP(key, ask{"Release", "r3", object{}}), "release over gRPC": b.overGRPC(key, ask{"Release", "r4", object{}})} {
		if got.code != "ok" {
			t.Errorf("%s: %v", what, got.raw)
		}
	}
	for _, a := range []ask{{"Reserve", "", cents("r6", 1)}, {"Extend", "r5", object{"output_tokens_so_far": 90}}, {"StartExecution", "", object{"agent_id": "a"}}, {"GetBudget", "", nil}} {
		if got := b.overHTTP(key, a); got.code != "forbidden_tenant" {
			t.Errorf("%s over HTTP: %v", a.method, got.raw)
		}
		if got := b.overGRPC(key, a); got.code != "forbidden_tenant" {
			t.Errorf("%s over gRPC: %v", a.method, got.raw)
		}
	}
	if got := b.overHTTP(w.keys["beta"], ask{"Settle", "r5", used}); got.code != "reservation_not_found" {
		t.Errorf("another tenant: %v", got.raw)
	}
	if got := b.overHTTP(w.publishKey("never-there"), ask{"Settle", "r5", used}); got.code == "ok" {
		t.Errorf("a tenant that never was: %v", got.raw)
	}
}
