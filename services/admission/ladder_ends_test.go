//go:build integration

package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: whatever ends a reservation that was granted the cheaper model ends it at that model: expiry, a late settle, a
// settle without usage, a settle by receipt, growth.
func TestSavingHoldsEnd(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": laddered()})
	w.publishHalf()
	r := w.start()
	status, out := r.ask("acme", "first", 80, "read")
	w.want("to rung 2", status, out, 201, "model", "flat")
	r.spend("acme", "first", 80)

	body := func(id string, lease int) object {
		return object{"reservation_id": id, "provider": "openai", "model": "flat", "lease_seconds": lease, "estimate": object{"input_tokens": 0, "max_output_tokens": 4}}
	}
	reserve := func(id string, lease int) object {
		status, out, _ := r.do("POST", "/v1/reservations", w.keys["acme"], body(id, lease))
		w.want(id, status, out, 201, "model", "half", "rung", "2")
		return out
	}
	grown := reserve("grown", 60)
	status, out, _ = r.do("POST", "/v1/reservations/grown/extend", w.keys["acme"], object{"output_tokens_so_far": 6})
	w.want("grows by the cheaper price", status, out["reserved"].(object), 200, "cost_usd", "0.03")
	status, again, _ := r.do("POST", "/v1/reservations", w.keys["acme"], body("grown", 60))
	if status != 200 || fmt.Sprint(again) != fmt.Sprint(grown) {
		t.Errorf("the repeat of a grown one: %d %v", status, again)
	}
	status, out = r.settle("acme", "grown", object{"receipt": grown["receipt"]})
	w.want("without usage: what it grew to", status, out, 200, "cost_usd", "0.03", "estimated", "true", "flags", "[]")
	reserve("dies", 1)
	w.eventually("expired", func() error {
		if status, out, _ := r.do("GET", "/v1/reservations/dies", w.keys["acme"], nil); out["state"] != "expired" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
	status, out = r.settle("acme", "dies", object{"meters": object{"output_tokens": 2}})
	w.want("late", status, out, 200, "cost_usd", "0.01", "late", "true", "flags", "[]")
	freed := reserve("freed", 60)
	status, out, _ = r.do("POST", "/v1/reservations/freed/release", w.keys["acme"], object{"receipt": freed["receipt"]})
	w.want("released", status, out, 200, "state", "released")
	status, out = r.settle("acme", "freed", object{"meters": object{"output_tokens": 2}, "model": "flat"})
	w.want("used after all, at the dearer model", status, out, 200, "cost_usd", "0.02", "flags", "[dearer_model]")

	said := map[string]string{}
	for _, row := range w.outboxRows() {
		ev, err := usageevent.Decode(row.payload, nil)
		w.must(err)
		said[ev.Data.ReservationID+" "+ev.Data.Reservation.Outcome] = fmt.Sprint(ev.Data.Model, " ", ev.Data.Reservation.EstimateUSD, " ", ev.Data.Reservation.Flags)
	}
	for what, want := range map[string]string{"grown estimated": "half 0.03 []", "dies unsettled": "half 0.02 []", "dies late": "half 0.02 []", "freed late": "flat 0.02 [dearer_model]"} {
		if said[what] != want {
			t.Errorf("%s: %q, want %q", what, said[what], want)
		}
	}
}

// Goal: a call that has no price is a decision that billing can see.
func TestUnknownPriceIsTold(t *testing.T) {
	w := newWorld(t, map[string]tenant.Contract{"acme": laddered()})
	r := w.start()
	status, out, _ := r.do("POST", "/v1/reservations", w.keys["acme"], object{"reservation_id": "r", "provider": "openai", "model": "unheard-of", "estimate": object{"input_tokens": 1}})
	w.want("no price", status, out, 422, "code", "unknown_price")
	for id, d := range w.decided(weirv1.DecisionKind_DECISION_KIND_REFUSED, 1) {
		if d.GetCode() != "unknown_price" || d.GetReservationId() != "r" || time.Since(d.GetDecidedAt().AsTime()) > patience {
			t.Errorf("%s %v", id, d)
		}
	}
}
