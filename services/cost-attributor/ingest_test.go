package costattributor

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Events of admission's ingest are signed, come from anybody's source and hold no reservation: external usage of their
// subject, whose place in the tree is the token's where there is one.
func TestIngested(t *testing.T) {
	w := newWorld(t, false)
	token := must[string](t)(w.key.SignExecutionToken(identity.Execution{Tenant: "acme", Root: "root", Agent: "lead", ParentAgent: "boss", CostCenter: "ops", Depth: 3,
		ExpiresAt: now}, now.Add(-time.Hour)))
	send := func(ev usageevent.Event) ([]ledger.Entry, string) {
		value := usageevent.Encode(ev)
		return w.send(w.record(value, "acme", identity.SignatureHeader, identity.Sign(secret(t), value)))
	}
	ev := call("e1")
	ev.Data.ReservationID = "r1"
	entries, reason := send(ev)
	if reason != "" || len(entries) != 1 || entries[0].TenantID != "acme" || entries[0].IsOwn() || entries[0].External != 3_500_000 || entries[0].ReservationID != "r1" {
		t.Errorf("%q %+v", reason, entries)
	}
	if entries, reason := send(ev); reason != "" || len(entries) != 0 {
		t.Errorf("the same again: %q %+v", reason, entries)
	}
	ev = call("e2")
	ev.Data.ExecutionToken, ev.Data.RootExecutionID = token, "claimed"
	entries, reason = send(ev)
	if reason != "" || len(entries) != 1 || entries[0].Lineage.RootExecutionID != "root" || entries[0].Lineage.Depth != 3 || entries[0].Lineage.CostCenter != "ops" {
		t.Errorf("%q %+v", reason, entries)
	}
}
