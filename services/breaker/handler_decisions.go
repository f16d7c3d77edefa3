package breaker

import (
	"context"
	"log/slog"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/breaker"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/obs"
)

// decisionReader handles admission's decisions. It keeps no state: a refusal trips whatever was spent.
type decisionReader struct {
	log     *slog.Logger
	metrics *metrics
	loaded  func(context.Context) error // waits for revocations
	revoked *revoked
}

// handle ends the executions that admission refused for their budget, calls or depth.
func (d *decisionReader) handle(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
	var trips []ended
	met := map[root]bool{} // a refused caller asks again, and is refused again
	for _, r := range batch {
		// Decode.
		id, signal, isTrip, err := refusal(r.Value)
		if err != nil {
			// Not worth stopping every other tenant's trips: admission itself refuses that execution in any case.
			d.metrics.malformed.Inc()
			d.log.Error("decision passed over", obs.Partition, r.Partition, obs.Offset, r.Offset, "error", err)
			continue
		}
		if !isTrip || met[id] || d.revoked.has(id) {
			continue
		}
		met[id] = true
		// Decide.
		if _, trip := breaker.Step(breaker.State{}, signal, tenant.Execution{}); trip != nil {
			trips = append(trips, ended{root: id, trip: *trip})
		}
	}
	// Emit.
	return d.revoked.end(ctx, trips)
}

// assigned waits until it is known which roots were ended before.
func (d *decisionReader) assigned(ctx context.Context, _ bus.Claim, _ bus.Committed) (int64, error) {
	return bus.AtCommitted, d.loaded(ctx)
}
