package admission

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// maxQueued bounds the revocations that wait for the end of a recovery; one more makes their follower wait.
const maxQueued = 100_000

// revocations are those that came while the counters were being made anew. Before this replica serves again they are in
// Redis, whatever the leader of the recovery had read of the topic by then.
type revocations struct {
	mu     sync.Mutex
	queued map[revoked]struct{}
}

type revoked struct{ tenant, root string }

func (q *revocations) add(r revoked) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued == nil {
		q.queued = map[revoked]struct{}{}
	}
	if len(q.queued) >= maxQueued {
		return false
	}
	q.queued[r] = struct{}{}
	return true
}

func (q *revocations) list() []revoked {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]revoked, 0, len(q.queued))
	for r := range q.queued {
		out = append(out, r)
	}
	return out
}

func (q *revocations) remove(r revoked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.queued, r)
}

// applyRevocation mirrors a revocation into Redis, where every replica's next decision finds it. A tombstone lifts
// nothing: revocations leave by age, and the execution with them.
func (s *Service) applyRevocation(r bus.Record) error {
	rev, ok := s.revocation(r)
	if !ok {
		return nil
	}
	one := revoked{rev.GetTenantId(), rev.GetRootExecutionId()}
	t, err := s.of(one.tenant)
	if err != nil {
		if errors.As(err, new(recoveringError)) && s.revocations.add(one) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Deadline)
	defer cancel()
	return s.onTenant(ctx, t, func() error { return s.revoke(ctx, t, one.root) })
}

// revoke ends a root in Redis. One that nobody started is left out where there is no place for it (ADR 0016): nobody has a token of
// it. Should it be started later, its limits hold it.
func (s *Service) revoke(ctx context.Context, t budgetstore.Tenant, root string) error {
	err := s.counters.Revoke(ctx, t, root)
	if errors.Is(err, budgetstore.ErrExecutions) {
		s.metrics.leftOut.Inc()
		return nil
	}
	return err
}

// revocation decodes one; false for tombstones and for what no breaker writes.
func (s *Service) revocation(r bus.Record) (*weirv1.Revocation, bool) {
	if r.Value == nil {
		return nil, false
	}
	rev := new(weirv1.Revocation)
	if err := proto.Unmarshal(r.Value, rev); err != nil || !tenant.ValidID(rev.GetTenantId()) || rev.GetRootExecutionId() == "" {
		s.metrics.badRecords.WithLabelValues(r.Topic.Name()).Inc()
		s.deps.Log.Error("revocation refused", "topic", r.Topic.Name(), "partition", r.Partition, "offset", r.Offset, "error", err)
		return nil, false
	}
	return rev, true
}

// revokeQueued writes what came during a recovery, now that the epoch is ready. False: not all of it.
func (s *Service) revokeQueued(ctx context.Context, epoch int64) bool {
	for _, one := range s.revocations.list() {
		write, cancel := s.bounded(ctx)
		t := budgetstore.Tenant{ID: one.tenant, Epoch: epoch}
		err := s.onTenant(write, t, func() error { return s.revoke(write, t, one.root) })
		cancel()
		if err != nil {
			s.logQuietly("revocations", "revocations that came during the recovery are not written yet", err)
			return false
		}
		s.revocations.remove(one)
	}
	return true
}
