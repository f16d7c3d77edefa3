//go:build integration

package budgetstore

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/pkg/testkit"
)

// BenchmarkLoadBase is what a recovery does for each tenant: its counters are made from a base of each kind, a hold that was
// shown is opened in them, and they are marked ready. So many tenants at a time share round trips.
func BenchmarkLoadBase(b *testing.B) {
	url := testkit.Redis(b)
	for _, tenants := range []int{1000, 10_000} {
		for _, window := range []int{1, 16, 128} {
			if tenants > 1000 && window == 1 {
				continue // as long again as the smaller number, ten times
			}
			b.Run(fmt.Sprintf("tenants=%d/window=%d", tenants, window), func(b *testing.B) {
				w := newWorldAt(b, url)
				base := Base{Offset: 100, Own: []OwnTotal{
					{Scope: MinuteScope, Window: w.clock.now().Unix() / 60 * 60, Nanos: dollar, Requests: 3, InputTokens: 100, OutputTokens: 10},
					{Scope: DayScope, Window: 20260630, Nanos: 2 * dollar}, {Scope: MonthScope, Window: 202606, Nanos: 3 * dollar}},
					External:   []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 90, Nanos: dollar}, {Scope: MonthScope, Window: 202606, Version: 90, Nanos: dollar}},
					Executions: []ExecutionTotal{{Root: "root", Own: dollar, Calls: 2, Version: 90, LastUsed: w.clock.now()}}}
				for round := int64(1); b.Loop(); round++ {
					var g errgroup.Group
					g.SetLimit(window)
					for n := range tenants {
						g.Go(func() error {
							t := Tenant{ID: fmt.Sprintf("%s-%d-%d", w.tenant.ID, round, n), Epoch: testEpoch}
							if _, err := w.store.LoadBase(b.Context(), t.ID, Maker{Epoch: testEpoch, Generation: round}, base); err != nil {
								return err
							}
							if err := w.store.MarkReady(b.Context(), t); err != nil {
								return err
							}
							return w.store.ForgetPending(b.Context(), t)
						})
					}
					w.must(g.Wait())
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tenants), "us/tenant")
			})
		}
	}
}
