package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/breaker"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
)

// ended is one trip of one root.
type ended struct {
	root root
	trip breaker.Trip
	who  owner
}

// owner is a root's own agent and cost centre; empty where no call of it was seen, or admission refused the execution.
type owner struct{ agent, costCenter string }

// revoked is the copy of executions.revoked.v1, and the only writer of this process. It is where a trip of the journal
// and one of admission about the same root meet.
type revoked struct {
	log     *slog.Logger
	metrics *metrics
	secret  identity.Secret
	produce func(context.Context, ...bus.Record) error

	publishing sync.Mutex // held for a whole publication, so that the second of two trips sees the first
	mu         sync.Mutex
	roots      map[string]struct{} // by key; bounded by the topic's retention
}

// apply takes one record of executions.revoked.v1.
func (v *revoked) apply(r bus.Record) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Value == nil {
		delete(v.roots, string(r.Key))
	} else {
		v.roots[string(r.Key)] = struct{}{}
	}
	v.metrics.revoked.Set(float64(len(v.roots)))
	return nil
}

func (v *revoked) has(r root) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.roots[r.key()]
	return ok
}

// end publishes the trips whose roots are not revoked: every termination event first, so that none is lost once its
// revocation says that the root is done. nil means that all of it is acknowledged.
func (v *revoked) end(ctx context.Context, trips []ended) error {
	v.publishing.Lock()
	defer v.publishing.Unlock()
	var events, revocations []bus.Record
	var fresh []ended
	for _, t := range trips {
		if v.has(t.root) {
			continue
		}
		r, err := revocation(t.root, t.trip)
		if err != nil {
			return err
		}
		events, revocations, fresh = append(events, termination(v.secret, t)), append(revocations, r), append(fresh, t)
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := v.produce(ctx, events...); err != nil {
		return fmt.Errorf("publish terminations: %w", err)
	}
	if err := v.produce(ctx, revocations...); err != nil {
		return fmt.Errorf("publish revocations: %w", err)
	}
	for i, t := range fresh {
		v.metrics.trips.WithLabelValues(string(t.trip.Reason)).Inc()
		v.log.Warn("execution ended", obs.TenantID, t.root.tenant, obs.RootExecutionID, t.root.execution,
			"reason", t.trip.Reason, "observed", t.trip.Observed, "threshold", t.trip.Threshold)
		_ = v.apply(revocations[i])
	}
	return nil
}
