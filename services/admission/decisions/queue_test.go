package decisions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

const (
	refused  = weirv1.DecisionKind_DECISION_KIND_REFUSED
	admitted = weirv1.DecisionKind_DECISION_KIND_ADMITTED
	changed  = weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED
)

// Goal: trips are published however long Kafka is away, refusals within their bound. Method: virtual time, a producer
// that fails first.
func TestSurvivesKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		got := map[string]int{}
		q := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), func(_ context.Context, records ...bus.Record) error {
			if away.Load() {
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
		add := func(n int, d *weirv1.Decision) {
			for range n {
				q.Add(d)
			}
		}
		add(maxChanges+7, &weirv1.Decision{Kind: changed, TenantId: "acme"})
		add(maxPlain-50, &weirv1.Decision{Kind: refused, TenantId: "acme", Code: "rate_limited"})
		add(150, &weirv1.Decision{Kind: admitted, TenantId: "acme"})
		for _, tenant := range []string{"acme", "acme", "acme", "beta"} { // an execution that is refused again and again: one trip
			q.Add(&weirv1.Decision{Kind: refused, TenantId: tenant, RootExecutionId: "x1", Code: "execution_budget_exceeded", Trip: true})
		}
		add(1, &weirv1.Decision{Kind: refused, TenantId: "acme", Code: "execution_budget_exceeded"})
		for kind, want := range map[string]float64{"refusal": 1, "admitted": 100, "rung": 7, "trip": 0} {
			if n := testutil.ToFloat64(q.dropped.WithLabelValues(kind)); n != want {
				t.Errorf("%v of kind %s dropped, want the %v beyond the bound", n, kind, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- q.Run(ctx) }()
		advance(time.Hour)
		away.Store(false)
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
func TestAtTheEnd(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			published := 0
			var log strings.Builder
			q := New(slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry(), func(ctx context.Context, records ...bus.Record) error {
				if away {
					<-ctx.Done()
					return ctx.Err()
				}
				published += len(records)
				return nil
			})
			const each = batchSize + 7
			for i := range each {
				q.Add(&weirv1.Decision{Kind: changed})
				q.Add(&weirv1.Decision{Kind: refused})
				q.Add(&weirv1.Decision{Kind: refused, RootExecutionId: fmt.Sprint(i), Trip: true})
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := q.Run(ctx); err != nil {
				t.Error(err)
			}
			want, dropped := 3*each, 0.0
			if away {
				want, dropped = 0, each
			}
			for _, kind := range []string{"refusal", "rung", "trip"} {
				if n := testutil.ToFloat64(q.dropped.WithLabelValues(kind)); n != dropped || away != strings.Contains(log.String(), fmt.Sprintf("%s=%d", kind, each)) {
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
	q := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), nil)
	for i := range maxTrips + 5 {
		q.Add(&weirv1.Decision{Kind: refused, TenantId: "acme", RootExecutionId: fmt.Sprint(i), Trip: true})
	}
	if n := testutil.ToFloat64(q.dropped.WithLabelValues("trip")); n != 5 || len(q.trips) != maxTrips {
		t.Errorf("%v dropped, %d kept", n, len(q.trips))
	}
}
