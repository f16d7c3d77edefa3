//go:build integration

package admission

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: a holder who extends by receipt right after a loss is asked to come back at once, and is kept as soon as the recovery
// has begun, while all others are told to wait for its end. Method: nobody may lead for a while.
func TestExtendsByReceiptSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, one(contract()))
	r := w.start() // leases run for minutes
	status, out := r.reserve("acme", "r1", 30)
	w.want("reserve", status, out, 201)
	receipt := out["receipt"]
	rows, err := pgstore.Open(t.Context(), w.postgres)
	w.must(err)
	defer rows.Close()
	lead, err := rows.TryLead(t.Context())
	w.must(err)
	w.redisCommand("FLUSHALL")
	extend := func(body object) (int, object, int) {
		status, out, header := r.do("POST", "/v1/reservations/r1/extend", w.keys["acme"], body)
		after, err := strconv.Atoi(header.Get("Retry-After"))
		if status == 503 && err != nil {
			t.Errorf("no Retry-After: %v %v", out, header)
		}
		return status, out, after
	}
	w.eventually("others are told when the recovery may be over", func() error {
		status, out, after := extend(object{"receipt": receipt})
		if status != 503 || out["code"] != "budget_store_recovering" || after > 3 {
			t.Errorf("by receipt: %d %v, Retry-After %d", status, out, after)
		}
		if status, out, after := extend(object{}); status != 503 || after < 10 {
			return fmt.Errorf("without: %d %v, Retry-After %d", status, out, after)
		}
		return nil
	})
	w.must(lead.Close(t.Context()))
	w.eventually("kept by its receipt", func() error {
		if status, out, after := extend(object{"receipt": receipt}); status != 200 {
			return fmt.Errorf("%d %v, Retry-After %d", status, out, after)
		}
		return nil
	})
	if row := w.epochNow(); !row.Recovering {
		t.Errorf("only at its end: %+v", row)
	}
}
