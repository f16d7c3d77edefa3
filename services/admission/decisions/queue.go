// Package decisions publishes what admission decided on admission.decisions.v1, and never makes a request wait for it.
//
// It owns: what waits for Kafka, how much of it, and what is dropped. It does not own: what is told of a decision, and which are
// told (services/admission), nor what becomes of it (docs/reference/decisions.md).
//
// Invariants:
//   - While the process runs, a trip waits until Kafka has it; of an execution the latest one is enough.
//   - What was not acknowledged is queued again, so that a reader may have a decision twice, with the same id.
//
// Bounds: below. What is beyond them is dropped and counted.
package decisions

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Bounds of what waits for Kafka. Refusals and samples beyond maxPlain are dropped and counted, and so are rung changes
// beyond maxChanges. Trips are never dropped while there is room for one per execution; beyond maxTrips executions a new
// one is left to the execution's next refusal, which is decided, and queued, again.
const (
	maxPlain   = 10_000
	maxChanges = 10_000
	maxTrips   = 10_000
	batchSize  = 500
	interval   = 50 * time.Millisecond
)

// Queue holds what is not published yet. It is safe for concurrent use.
type Queue struct {
	log     *slog.Logger
	produce func(ctx context.Context, records ...bus.Record) error
	dropped *prometheus.CounterVec
	waiting prometheus.Gauge

	mu      sync.Mutex
	plain   []*weirv1.Decision          // refusals and samples
	changes []*weirv1.Decision          // of rungs
	trips   map[string]*weirv1.Decision // by tenant and root execution
}

// New makes an empty queue. produce returns once Kafka has acknowledged its records, or with the reason why not.
func New(log *slog.Logger, registry prometheus.Registerer, produce func(ctx context.Context, records ...bus.Record) error) *Queue {
	q := &Queue{log: log, produce: produce, trips: map[string]*weirv1.Decision{},
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_decisions_dropped_total",
			Help: "Decisions that were not queued, by kind; a trip is decided again at the next refusal."}, []string{"kind"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_admission_decisions_waiting", Help: "Decisions not yet acknowledged by Kafka."})}
	registry.MustRegister(q.dropped, q.waiting)
	return q
}

// Add queues a decision, and never waits for Kafka.
func (q *Queue) Add(decision *weirv1.Decision) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(decision)
}

// add keeps a decision until it is published, within its bound. q.mu is held.
func (q *Queue) add(decision *weirv1.Decision) {
	list, most := q.listOf(decision)
	switch {
	case list == nil:
		key := tripKey(decision)
		if _, known := q.trips[key]; known || len(q.trips) < maxTrips {
			q.trips[key] = decision
			return
		}
	case len(*list) < most:
		*list = append(*list, decision)
		return
	}
	q.dropped.WithLabelValues(kindOf(decision)).Inc()
}

// listOf is where a decision waits, and how many may; nil for trips.
func (q *Queue) listOf(decision *weirv1.Decision) (list *[]*weirv1.Decision, most int) {
	switch {
	case decision.GetTrip():
		return nil, maxTrips
	case decision.GetKind() == weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED:
		return &q.changes, maxChanges
	default:
		return &q.plain, maxPlain
	}
}

// kindOf is how the metrics call what a decision is.
func kindOf(decision *weirv1.Decision) string {
	switch {
	case decision.GetTrip():
		return "trip"
	case decision.GetKind() == weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED:
		return "rung"
	case decision.GetKind() == weirv1.DecisionKind_DECISION_KIND_ADMITTED:
		return "admitted"
	default:
		return "refusal"
	}
}

func tripKey(decision *weirv1.Decision) string {
	return decision.GetTenantId() + "\x00" + decision.GetRootExecutionId()
}

// lastTurn is what Kafka gets for what is queued at the end.
const lastTurn = 2 * time.Second

// Run publishes what is queued until ctx ends, then the rest. What Kafka does not take any more is dropped, as beyond the
// bounds: no error, since nothing of it was promised.
func (q *Queue) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTurn)
			defer cancel()
			for q.flush(last) {
			}
			q.drop()
			return nil
		case <-tick.C:
			q.flush(ctx)
		}
	}
}

// drop gives up what is still queued, and says how much that is.
func (q *Queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped := map[string]int{}
	for _, decision := range slices.Concat(q.plain, q.changes, slices.Collect(maps.Values(q.trips))) {
		dropped[kindOf(decision)]++
	}
	if len(dropped) == 0 {
		return
	}
	q.plain, q.changes, q.trips = nil, nil, map[string]*weirv1.Decision{}
	var said []any
	for kind, n := range dropped {
		q.dropped.WithLabelValues(kind).Add(float64(n))
		said = append(said, kind, n)
	}
	q.log.Warn("decisions dropped: Kafka did not take them before the end", said...)
}

// flush publishes one batch, and says whether it did: not where there is none. What was not acknowledged stays queued: a trip
// always, the others within their bounds.
func (q *Queue) flush(ctx context.Context) (published bool) {
	batch := q.take()
	if len(batch) == 0 {
		return false
	}
	records := make([]bus.Record, 0, len(batch))
	for _, decision := range batch {
		value, err := proto.Marshal(decision)
		if err != nil { // invalid UTF-8 cannot be here: ids were checked
			q.dropped.WithLabelValues("encode").Inc()
			continue
		}
		records = append(records, bus.NewRecord(topics.AdmissionDecisions, decision.GetTenantId(), []byte(decision.GetTenantId()), value))
	}
	try, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := q.produce(try, records...)
	q.settle(batch, err == nil)
	if err != nil && ctx.Err() == nil {
		q.log.Warn("decisions wait for Kafka", "waiting", len(batch), "error", err)
		select { // no faster than this while Kafka is away
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return err == nil
}

// take copies what is to be sent next: all trips first, they are few, then rung changes and the rest up to a batch.
func (q *Queue) take() []*weirv1.Decision {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := slices.Collect(maps.Values(q.trips))
	for _, list := range []*[]*weirv1.Decision{&q.changes, &q.plain} {
		n := min(len(*list), max(0, batchSize-len(batch)))
		batch = append(batch, (*list)[:n]...)
		*list = slices.Delete(*list, 0, n)
	}
	q.waiting.Set(float64(len(batch) + len(q.changes) + len(q.plain)))
	return batch
}

// settle forgets what was published, and queues again what was not. A trip that was decided anew meanwhile stays.
func (q *Queue) settle(batch []*weirv1.Decision, published bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, decision := range batch {
		switch {
		case decision.GetTrip():
			if key := tripKey(decision); published && q.trips[key] == decision {
				delete(q.trips, key)
			}
		case !published:
			q.add(decision)
		}
	}
}
