//go:build integration

package admission

import (
	"testing"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: an end whose epoch is raised between its look at the hold and its commit is recorded for the journal, because no
// script will ever reach that hold. Method: the row is raised in Postgres alone; both kinds of end follow at once.
func TestEndsAfterTheEpochWasRaised(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	status, settled := r.reserve("acme", "settled", 30)
	w.want("reserve", status, settled, 201)
	status, out := r.reserve("acme", "expired", 30)
	w.want("reserve", status, out, 201)
	of, err := r.svc.of("acme")
	w.must(err)
	hold, err := r.svc.counters.Hold(t.Context(), of, "expired")
	w.must(err)
	raised, err := r.svc.rows.RaiseEpoch(t.Context(), of.Epoch, of.Epoch+1, budgetstore.Layout, nil)
	w.must(err)
	if !raised {
		t.Fatal("not raised")
	}
	w.must(r.svc.expire(t.Context(), budgetstore.Tenant{ID: "acme", Epoch: of.Epoch}, hold))
	status, out = r.settle("acme", "settled", object{"meters": object{"output_tokens": 20}, "receipt": settled["receipt"]})
	w.want("settle", status, out, 200, "state", "settled")
	rows := w.outboxRows()
	if len(rows) != 2 {
		t.Fatalf("%d events", len(rows))
	}
	for _, row := range rows {
		ev, err := usageevent.Decode(row.payload, nil)
		w.must(err)
		if r := ev.Data.Reservation; r.OwnMode != usageevent.OwnModeJournal || r.OwnNanos == 0 || r.Epoch != of.Epoch {
			t.Errorf("%s: %+v", ev.ID, r)
		}
	}
}
