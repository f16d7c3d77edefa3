//go:build integration

package admission

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/audit/stores"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// noBooks is a ClickHouse with nothing in it.
type noBooks struct{ audit.Books }

func (noBooks) LedgerRows(context.Context, func(audit.LedgerRow) error) error             { return nil }
func (noBooks) Windows(context.Context, func(audit.WindowRow) error) error                { return nil }
func (noBooks) WindowConflicts(context.Context, func(audit.WindowKey, int64) error) error { return nil }

// Goal: a late figure that has no price is no difference between journal, Redis and what the audit expects: what was held
// stays counted, as external. After an estimate that it replaces, and after a release.
func TestLateFigureWithoutAPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]tenant.Contract{"acme": contract()})
	w.pipeline()
	r := w.start()
	for id, end := range map[string]func() (int, object){
		"estimated": func() (int, object) { return r.settle("acme", "estimated", object{"status": "PARTIAL"}) },
		"released": func() (int, object) {
			status, out, _ := r.do("POST", "/v1/reservations/released/release", w.keys["acme"], nil)
			return status, out
		},
	} {
		status, out := r.reserve("acme", id, 30)
		w.want(id, status, out, 201)
		status, out = end()
		w.want(id, status, out, 200)
		status, out = r.settle("acme", id, object{"model": "nope", "meters": object{"output_tokens": 5}})
		w.want(id+", late", status, out, 200)
	}
	w.exact(r, "acme", "0.3", "0", "0.3")
	w.eventually("nothing differs", func() error {
		report, err := audit.Run(t.Context(), audit.Sources{Log: w.conn, Books: noBooks{}, Budgets: stores.Budgets{Store: r.svc.counters, Epoch: w.epochNow().Epoch, Now: time.Now}, Now: time.Now()})
		left := slices.DeleteFunc(report.Differences, func(d audit.Difference) bool { return d.Where == "ledger" || d.Where == "windows table" })
		if err == nil && (len(left) > 0 || report.Entries != 4) {
			err = fmt.Errorf("%d entries: %v", report.Entries, left)
		}
		return err
	})
}
