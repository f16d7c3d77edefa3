package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Goal: trips are published however long Kafka is away, refusals within their bound. Method: virtual time, a producer
// that fails first.
func TestDecisionsSurviveKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, got := true, map[string]int{}
		m := newMetrics(prometheus.NewRegistry())
		d := newDecisions(m, slog.New(slog.DiscardHandler), 1, func(_ context.Context, records ...bus.Record) error {
			if away {
				return errors.New("no broker")
			}
			for _, r := range records {
				decision := new(weirv1.Decision)
				if err := proto.Unmarshal(r.Value, decision); err != nil {
					t.Fatal(err)
				}
				got[fmt.Sprint(decision.GetCode(), decision.GetTrip(), decision.GetKind().Number())]++
			}
			return nil
		})
		trip := admit.Refusal{Code: admit.ExecutionBudgetExceeded, Limit: admit.LimitMaxCost}
		acme, beta := caller{tenant: "acme", contract: plan()}, caller{tenant: "beta", contract: plan()}
		for i := range maxChanges + 7 {
			d.admitted(&acme, fmt.Sprint(i), &call{}, &admit.Answer{Rung: ladder.Caching}, true)
		}
		for i := range maxPlain - 50 {
			d.refused(acme, fmt.Sprint(i), call{}, admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests}, time.Unix(0, 0))
		}
		for i := range 150 {
			d.admitted(&acme, fmt.Sprint(i), &call{}, &admit.Answer{}, false)
		}
		for range 3 { // the same execution is refused again and again: one trip
			d.refused(acme, "r", call{Root: "x1"}, trip, time.Unix(0, 0))
		}
		d.refused(beta, "r", call{Root: "x1"}, trip, time.Unix(0, 0))
		d.refused(acme, "r", call{}, trip, time.Unix(0, 0)) // without an execution there is nothing to trip
		for kind, want := range map[string]float64{"refusal": 1, "admitted": 100, "rung": 7, "trip": 0} {
			if n := testutil.ToFloat64(m.dropped.WithLabelValues(kind)); n != want {
				t.Errorf("%v of kind %s dropped, want the %v beyond the bound", n, kind, want)
			}
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
		want := map[string]int{"execution_budget_exceededtrue 1": 2, "rate_limitedfalse 1": maxPlain - 50, "false 3": 50, "false 2": maxChanges}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// Goal: what is queued at the end is published whole, or dropped whole: counted by its kind, told of once, and no error. Method:
// more than a batch of each kind, with Kafka there and away.
func TestDecisionsAtTheEnd(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			published, m := 0, newMetrics(prometheus.NewRegistry())
			var log strings.Builder
			d := newDecisions(m, slog.New(slog.NewTextHandler(&log, nil)), 0, func(ctx context.Context, records ...bus.Record) error {
				if away {
					<-ctx.Done()
					return ctx.Err()
				}
				published += len(records)
				return nil
			})
			acme := caller{tenant: "acme", contract: plan()}
			const each = decisionBatch + 7
			for i := range each {
				d.admitted(&acme, fmt.Sprint(i), &call{}, &admit.Answer{Rung: ladder.Caching}, true)
				d.refused(acme, fmt.Sprint(i), call{}, admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests}, time.Unix(0, 0))
				d.refused(acme, "r", call{Root: fmt.Sprint(i)}, admit.Refusal{Code: admit.ExecutionBudgetExceeded, Limit: admit.LimitMaxCost}, time.Unix(0, 0))
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := d.run(ctx); err != nil {
				t.Error(err)
			}
			want, dropped := 3*each, 0.0
			if away {
				want, dropped = 0, each
			}
			for _, kind := range []string{"refusal", "rung", "trip"} {
				if n := testutil.ToFloat64(m.dropped.WithLabelValues(kind)); n != dropped || away != strings.Contains(log.String(), fmt.Sprintf("%s=%d", kind, each)) {
					t.Errorf("away %t: %v of kind %s dropped, want %v; %s", away, n, kind, dropped, log.String())
				}
			}
			if published != want {
				t.Errorf("away %t: %d published, want %d", away, published, want)
			}
		})
	}
}

// advance lets virtual time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Goal: memory is bounded when trips pile up, too.
func TestTripsAreBounded(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	d := newDecisions(m, slog.New(slog.DiscardHandler), 0, nil)
	for i := range maxTrips + 5 {
		d.refused(caller{tenant: "acme", contract: plan()}, "r", call{Root: fmt.Sprint(i)}, admit.Refusal{Code: admit.ExecutionDepthExceeded}, time.Unix(0, 0))
	}
	if n := testutil.ToFloat64(m.dropped.WithLabelValues("trip")); n != 5 || len(d.trips) != maxTrips {
		t.Errorf("%v dropped, %d kept", n, len(d.trips))
	}
}
