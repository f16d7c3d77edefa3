package admission

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Bounds of what waits for Kafka. Plain refusals beyond maxRefusals are dropped and counted. Trips are never dropped
// while there is room for one per execution; beyond maxTrips executions a new one is left to the execution's next
// refusal, which is decided, and queued, again.
const (
	maxRefusals      = 10_000
	maxTrips         = 10_000
	decisionBatch    = 500
	decisionInterval = 50 * time.Millisecond
)

// decisions is the way to admission.decisions.v1: it never makes a request wait.
type decisions struct {
	metrics *metrics
	log     *slog.Logger
	produce func(ctx context.Context, records ...bus.Record) error

	mu    sync.Mutex
	plain []*weirv1.Decision
	trips map[string]*weirv1.Decision // by tenant and root execution
}

func newDecisions(m *metrics, log *slog.Logger, produce func(ctx context.Context, records ...bus.Record) error) *decisions {
	return &decisions{metrics: m, log: log, produce: produce, trips: map[string]*weirv1.Decision{}}
}

// refused queues a refusal.
func (d *decisions) refused(tenant, reservation string, asked call, r admit.Refusal, now time.Time) {
	if !r.At.IsZero() {
		now = r.At
	}
	decision := &weirv1.Decision{TenantId: tenant, ReservationId: reservation, RootExecutionId: asked.Root, AgentId: asked.Agent,
		Code: string(r.Code), Limit: string(r.Limit), DecidedAt: timestamppb.New(now), Trip: r.Code.Trips() && asked.Root != ""}
	d.mu.Lock()
	defer d.mu.Unlock()
	if decision.Trip {
		key := tenant + "\x00" + asked.Root
		if _, known := d.trips[key]; !known && len(d.trips) >= maxTrips {
			d.metrics.dropped.WithLabelValues("trip").Inc()
			return
		}
		d.trips[key] = decision
		return
	}
	if len(d.plain) >= maxRefusals {
		d.metrics.dropped.WithLabelValues("refusal").Inc()
		return
	}
	d.plain = append(d.plain, decision)
}

// run publishes what is queued until ctx ends, and then once more.
func (d *decisions) run(ctx context.Context) error {
	tick := time.NewTicker(decisionInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			d.flush(last)
			return nil
		case <-tick.C:
			d.flush(ctx)
		}
	}
}

// flush publishes one batch. What was not acknowledged stays queued: a trip always, refusals within their bound.
func (d *decisions) flush(ctx context.Context) {
	batch := d.take()
	if len(batch) == 0 {
		return
	}
	records := make([]bus.Record, 0, len(batch))
	for _, decision := range batch {
		value, err := proto.Marshal(decision)
		if err != nil { // invalid UTF-8 cannot be here: ids were checked
			d.metrics.dropped.WithLabelValues("encode").Inc()
			continue
		}
		records = append(records, bus.NewRecord(topics.AdmissionDecisions, decision.GetTenantId(), []byte(decision.GetTenantId()), value))
	}
	try, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := d.produce(try, records...)
	d.settle(batch, err == nil)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("decisions wait for Kafka", "waiting", len(batch), "error", err)
		select { // no faster than this while Kafka is away
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// take copies what is to be sent next: all trips first, they are few, then refusals up to a batch.
func (d *decisions) take() []*weirv1.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch := slices.Collect(maps.Values(d.trips))
	n := min(len(d.plain), max(0, decisionBatch-len(batch)))
	batch = append(batch, d.plain[:n]...)
	d.plain = slices.Delete(d.plain, 0, n)
	d.metrics.waiting.Set(float64(len(batch) + len(d.plain)))
	return batch
}

// settle forgets what was published, and puts refusals back that were not. A trip that was decided anew meanwhile stays.
func (d *decisions) settle(batch []*weirv1.Decision, published bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, decision := range batch {
		key := decision.GetTenantId() + "\x00" + decision.GetRootExecutionId()
		switch {
		case decision.GetTrip() && published && d.trips[key] == decision:
			delete(d.trips, key)
		case decision.GetTrip() || published:
		case len(d.plain) < maxRefusals:
			d.plain = append(d.plain, decision)
		default:
			d.metrics.dropped.WithLabelValues("refusal").Inc()
		}
	}
}
