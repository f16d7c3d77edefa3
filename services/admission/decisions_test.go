package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Goal: trips are published however long Kafka is away, refusals within their bound. Method: virtual time, a producer
// that fails first.
func TestDecisionsSurviveKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, got := true, map[string]int{}
		m := newMetrics(prometheus.NewRegistry())
		d := newDecisions(m, slog.New(slog.DiscardHandler), func(_ context.Context, records ...bus.Record) error {
			if away {
				return errors.New("no broker")
			}
			for _, r := range records {
				decision := new(weirv1.Decision)
				if err := proto.Unmarshal(r.Value, decision); err != nil {
					t.Fatal(err)
				}
				got[fmt.Sprint(decision.GetCode(), decision.GetTrip())]++
			}
			return nil
		})
		trip := admit.Refusal{Code: admit.ExecutionBudgetExceeded, Limit: admit.LimitMaxCost}
		for i := range maxRefusals + 100 {
			d.refused("acme", fmt.Sprint(i), call{}, admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests}, time.Unix(0, 0))
		}
		for range 3 { // the same execution is refused again and again: one trip
			d.refused("acme", "r", call{Root: "x1"}, trip, time.Unix(0, 0))
		}
		d.refused("beta", "r", call{Root: "x1"}, trip, time.Unix(0, 0))
		d.refused("acme", "r", call{}, trip, time.Unix(0, 0)) // without an execution there is nothing to trip
		if n := testutil.ToFloat64(m.dropped.WithLabelValues("refusal")); n != 101 {
			t.Errorf("%v dropped, want the 101 beyond the bound", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.run(ctx) }()
		advance(time.Hour)
		away = false
		advance(5 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got["execution_budget_exceededtrue"] != 2 || got["rate_limitedfalse"] != maxRefusals {
			t.Errorf("%v", got)
		}
	})
}

// advance lets virtual time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Goal: memory is bounded when trips pile up, too.
func TestTripsAreBounded(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	d := newDecisions(m, slog.New(slog.DiscardHandler), nil)
	for i := range maxTrips + 5 {
		d.refused("acme", "r", call{Root: fmt.Sprint(i)}, admit.Refusal{Code: admit.ExecutionDepthExceeded}, time.Unix(0, 0))
	}
	if n := testutil.ToFloat64(m.dropped.WithLabelValues("trip")); n != 5 || len(d.trips) != maxTrips {
		t.Errorf("%v dropped, %d kept", n, len(d.trips))
	}
}
