//go:build integration

package admission

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// booked are the entries of a tenant, by reservation, once there are so many.
func (w *world) booked(tenantID string, n int) map[string]ledger.Entry {
	w.t.Helper()
	var out map[string]ledger.Entry
	w.eventually("entries of the journal", func() error {
		if out = w.bookedSoFar(tenantID); len(out) < n {
			return fmt.Errorf("%d of %d", len(out), n)
		}
		return nil
	})
	return out
}

func (w *world) bookedSoFar(tenantID string) map[string]ledger.Entry {
	w.t.Helper()
	out := map[string]ledger.Entry{}
	w.must(w.conn.ReadPartition(w.t.Context(), topics.LedgerEntries, bus.PartitionFor([]byte(tenantID), topics.LedgerEntries.Partitions()), -1, -1, func(r bus.Record) error {
		e, err := ledgercodec.Unmarshal(r.Value)
		if err == nil && e.TenantID == tenantID {
			out[e.ReservationID] = e
		}
		return err
	}))
	return out
}

// Goal: a reservation without a price, under `unknown_price: dearest`, is held, told so, and ends unpriced in answer and
// books with the held amount kept, to the nano-dollar; by a model that has a price it ends at that.
func TestHeldAtTheDearestRates(t *testing.T) {
	t.Parallel()
	k := contract()
	k.UnknownPrice = tenant.UnknownPriceDearest
	w := newWorld(t, map[string]tenant.Contract{"acme": k, "strict": contract()})
	w.pipeline()
	r := w.start()
	reserve := func(tenantID, id, provider string) (int, object) {
		status, out, _ := r.do("POST", "/v1/reservations", w.keys[tenantID], object{"reservation_id": id, "provider": provider, "model": "brand-new",
			"estimate": object{"input_tokens": 10, "max_output_tokens": 20}})
		return status, out
	}
	status, out := reserve("strict", "r", "openai")
	w.want("refused by default", status, out, 422, "code", "unknown_price")
	status, out = reserve("acme", "r", "nobody")
	w.want("no price at all", status, out, 422, "code", "unknown_price")

	for id, c := range map[string]struct {
		body         object
		cost         string
		flags        string
		estimatedToo bool
	}{
		"used":    {object{"meters": object{"output_tokens": 5}}, "<nil>", "[unpriced]", false},
		"silent":  {object{"status": "PARTIAL"}, "<nil>", "[unpriced]", true},
		"renamed": {object{"meters": object{"output_tokens": 5}, "model": "flat"}, "0.05", "[]", false},
		"failed":  {object{"status": "FAILED"}, "0", "[]", false},
	} {
		status, out := reserve("acme", id, "openai")
		w.want(id, status, out, 201, "flags", "[dearest_rate]")
		if held := out["reserved"].(object)["cost_usd"]; held != "0.3" {
			t.Errorf("%s: %v held", id, held)
		}
		status, again := reserve("acme", id, "openai")
		if status != 200 || fmt.Sprint(again) != fmt.Sprint(out) {
			t.Errorf("%s again: %d %v", id, status, again)
		}
		status, ended, _ := r.do("POST", "/v1/reservations/"+id+"/extend", w.keys["acme"], object{"output_tokens_so_far": 20})
		w.want(id+" goes on", status, ended["reserved"].(object), 200, "cost_usd", "0.3")
		status, ended = r.settle("acme", id, c.body)
		w.want(id, status, ended, 200, "cost_usd", c.cost, "flags", c.flags, "estimated", fmt.Sprint(c.estimatedToo))
	}
	w.exact(r, "acme", "0.65", "0", "0")
	booked := w.booked("acme", 4)
	for id, own := range map[string]int64{"used": 300_000_000, "silent": 300_000_000, "renamed": 50_000_000, "failed": 0} {
		e := booked[id]
		if int64(e.Own) != own || e.External != 0 || e.Priced() == (own == 300_000_000) || e.Has(ledger.FlagUnpriced) == e.Priced() || e.Has(ledger.FlagEstimated) != (id == "silent") {
			t.Errorf("%s: %+v", id, e)
		}
	}
}
