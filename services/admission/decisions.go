package admission

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// Bounds of what waits for Kafka. Refusals and samples beyond maxPlain are dropped and counted, and so are rung changes
// beyond maxChanges. Trips are never dropped while there is room for one per execution; beyond maxTrips executions a new
// one is left to the execution's next refusal, which is decided, and queued, again.
const (
	maxPlain         = 10_000
	maxChanges       = 10_000
	maxTrips         = 10_000
	decisionBatch    = 500
	decisionInterval = 50 * time.Millisecond
)

// decisions is the way to admission.decisions.v1: it never makes a request wait.
type decisions struct {
	metrics *metrics
	log     *slog.Logger
	produce func(ctx context.Context, records ...bus.Record) error
	// sample: of so many admissions one is told of; 0 = of none.
	sample int64

	mu      sync.Mutex
	plain   []*weirv1.Decision          // refusals and samples
	changes []*weirv1.Decision          // of rungs
	trips   map[string]*weirv1.Decision // by tenant and root execution
	cuts    map[string]string           // by tenant, the id of the last cut that was told of: as many as there are tenants
}

func newDecisions(m *metrics, log *slog.Logger, sample int64, produce func(ctx context.Context, records ...bus.Record) error) *decisions {
	return &decisions{metrics: m, log: log, sample: sample, produce: produce, trips: map[string]*weirv1.Decision{}, cuts: map[string]string{}}
}

// refused queues a refusal, and where it is the first of a used up month, the change to the last rung.
func (d *decisions) refused(c caller, reservation string, asked call, r admit.Refusal, now time.Time) {
	decision := refusedDecision(c, reservation, asked, r, now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if cut := cutDecision(c, decision, r); cut != nil && d.cuts[c.tenant] != cut.GetId() {
		d.cuts[c.tenant] = cut.GetId()
		d.queue(cut)
	}
	d.queue(decision)
}

// admitted queues what an admission is news of: another rung than before, and, of those that are sampled, itself. A repeat
// is told of its rung again, since the first answer may never have arrived; the id is the same.
func (d *decisions) admitted(c *caller, reservation string, asked *call, a *admit.Answer, repeat bool) {
	changed, sampled := a.Rung != a.RungBefore, !repeat && isSampled(reservation, d.sample)
	if !changed && !sampled {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if changed {
		d.queue(changedDecision(*c, reservation, *asked, *a))
	}
	if sampled {
		d.queue(admittedDecision(*c, reservation, *asked, *a, d.sample))
	}
}

// queue keeps a decision until it is published, within its bound. d.mu is held.
func (d *decisions) queue(decision *weirv1.Decision) {
	list, most := d.listOf(decision)
	switch {
	case list == nil:
		key := tripKey(decision)
		if _, known := d.trips[key]; known || len(d.trips) < maxTrips {
			d.trips[key] = decision
			return
		}
	case len(*list) < most:
		*list = append(*list, decision)
		return
	}
	d.metrics.dropped.WithLabelValues(kindOf(decision)).Inc()
}

// listOf is where a decision waits, and how many may; nil for trips.
func (d *decisions) listOf(decision *weirv1.Decision) (list *[]*weirv1.Decision, most int) {
	switch {
	case decision.GetTrip():
		return nil, maxTrips
	case decision.GetKind() == weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED:
		return &d.changes, maxChanges
	default:
		return &d.plain, maxPlain
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

// run publishes what is queued until ctx ends, then the rest. What Kafka does not take any more is dropped, as beyond the
// bounds: no error, since nothing of it was promised.
func (d *decisions) run(ctx context.Context) error {
	tick := time.NewTicker(decisionInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTurn)
			defer cancel()
			for d.flush(last) {
			}
			d.drop()
			return nil
		case <-tick.C:
			d.flush(ctx)
		}
	}
}

// drop gives up what is still queued, and says how much that is.
func (d *decisions) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	dropped := map[string]int{}
	for _, decision := range slices.Concat(d.plain, d.changes, slices.Collect(maps.Values(d.trips))) {
		dropped[kindOf(decision)]++
	}
	if len(dropped) == 0 {
		return
	}
	d.plain, d.changes, d.trips = nil, nil, map[string]*weirv1.Decision{}
	var said []any
	for kind, n := range dropped {
		d.metrics.dropped.WithLabelValues(kind).Add(float64(n))
		said = append(said, kind, n)
	}
	d.log.Warn("decisions dropped: Kafka did not take them before the end", said...)
}

// flush publishes one batch, and says whether it did: not where there is none. What was not acknowledged stays queued: a trip
// always, the others within their bounds.
func (d *decisions) flush(ctx context.Context) (published bool) {
	batch := d.take()
	if len(batch) == 0 {
		return false
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
	return err == nil
}

// take copies what is to be sent next: all trips first, they are few, then rung changes and the rest up to a batch.
func (d *decisions) take() []*weirv1.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch := slices.Collect(maps.Values(d.trips))
	for _, list := range []*[]*weirv1.Decision{&d.changes, &d.plain} {
		n := min(len(*list), max(0, decisionBatch-len(batch)))
		batch = append(batch, (*list)[:n]...)
		*list = slices.Delete(*list, 0, n)
	}
	d.metrics.waiting.Set(float64(len(batch) + len(d.changes) + len(d.plain)))
	return batch
}

// settle forgets what was published, and queues again what was not. A trip that was decided anew meanwhile stays.
func (d *decisions) settle(batch []*weirv1.Decision, published bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, decision := range batch {
		switch {
		case decision.GetTrip():
			if key := tripKey(decision); published && d.trips[key] == decision {
				delete(d.trips, key)
			}
		case !published:
			d.queue(decision)
		}
	}
}
