package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// lost tells the watcher that a tenant's counters are gone, or of an earlier epoch. One at a time is enough.
func (s *Service) lost(t budgetstore.Tenant) {
	select {
	case s.losses <- t:
	default:
	}
}

// confirmLoss raises the epoch if a tenant's counters must exist in it and do not. A key is made before its row says
// ready, so there is no moment at which that is not a loss.
func (s *Service) confirmLoss(ctx context.Context, t budgetstore.Tenant) {
	if epoch, err := s.epoch(); err != nil || epoch != t.Epoch {
		return
	}
	read, cancel := s.bounded(ctx)
	defer cancel()
	state, err := s.rows.TenantState(read, t.ID, t.Epoch)
	if err != nil || state != pgstore.StateReady {
		return
	}
	row, sent := s.epochs.last(), s.deps.Now()
	redis, counters, err := s.afresh(ctx)
	if err != nil {
		return
	}
	defer func() { _ = counters.Close() }()
	if verdict, _ := recovery.Judge(s.judged(row), saysRedis(redis, s.epochs.unbroken(redis, sent))); verdict != recovery.Serve {
		return // another Redis: whoever watches the epoch will see
	}
	ask, done := s.bounded(ctx)
	defer done()
	if _, err := counters.Hold(ask, t, "-"); isLoss(err) {
		s.raise(ctx, t.Epoch, "the counters of tenant "+t.ID+" are gone", redis.ReplicationIDs)
		return
	}
	s.contradicted(byConnection, "an old connection has lost the counters of a tenant, a new one has not: it is left to end")
}

// raiseSeen raises the epoch because of what this replica has seen of Redis, if that is so by a new connection too, and is
// not what this replica alone was led to. True: the row has changed.
func (s *Service) raiseSeen(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing, reason recovery.Reason, sent time.Time) bool {
	if !recovery.Certain(s.judged(row), saysRedis(redis, false)) {
		ask, cancel := s.bounded(ctx)
		defer cancel()
		others, err := s.rows.OthersSee(ask, s.id, row.Epoch)
		if err != nil {
			return false
		}
		if others > 0 {
			s.know(row, sent, fmt.Errorf("%w: %s", errElsewhere, reason))
			s.contradicted(byReplicas, "this replica is led to another Redis than the others, and refuses: look at the address, DNS and Sentinel",
				"reason", reason, "epoch", row.Epoch, "replication_ids", redis.ReplicationIDs, "others", others, "theirs", row.ReplicationIDs)
			return false
		}
	}
	redis, counters, err := s.afresh(ctx)
	if err != nil {
		return false
	}
	_ = counters.Close()
	if verdict, _ := recovery.Judge(s.judged(row), saysRedis(redis, s.epochs.unbroken(redis, sent))); verdict != recovery.Raise {
		s.contradicted(byConnection, "an old connection leads to another Redis than a new one: it is left to end", "reason", reason)
		return false
	}
	return s.raise(ctx, row.Epoch, string(reason), redis.ReplicationIDs)
}

// afresh asks Redis what it is by new connections. The caller closes the store.
func (s *Service) afresh(ctx context.Context) (budgetstore.Standing, *budgetstore.Store, error) {
	counters, err := s.counters.Afresh()
	if err != nil {
		return budgetstore.Standing{}, nil, err
	}
	ask, cancel := s.bounded(ctx)
	defer cancel()
	redis, err := counters.Inspect(ask)
	if err != nil {
		return redis, nil, errors.Join(err, counters.Close())
	}
	return redis, counters, nil
}

// Who may say that there is no loss, as the metrics count it.
const (
	byReplicas   = "replicas"
	byConnection = "connection"
)

// contradicted counts a loss that somebody knows better, and logs it now and then.
func (s *Service) contradicted(by, text string, args ...any) {
	s.metrics.recovery.contradicted.WithLabelValues(by).Inc()
	if s.quiet.pass("contradicted "+by, s.deps.Now()) {
		s.deps.Log.Error(text, args...)
	}
}

// isLoss reports whether counters are certainly not those of the epoch.
func isLoss(err error) bool {
	return errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch)
}

// raiseWithin bounds a raise: it waits for every settle that is being committed.
const raiseWithin = 5 * time.Second

// raise ends an epoch whose counters are lost, with a marker in every partition, unless somebody did already. in are the
// replication ids of the Redis that was seen. True: the row has changed.
func (s *Service) raise(ctx context.Context, lost int64, reason string, in []string) bool {
	write, cancel := context.WithTimeout(ctx, raiseWithin)
	defer cancel()
	raised, err := s.rows.RaiseEpoch(write, lost, lost+1, s.cfg.layout, s.markers(lost+1, usageevent.EpochRaised), in...)
	if err != nil {
		s.logQuietly("raise", "the budget store has lost its counters ("+reason+"), and Postgres cannot be told yet", err)
		return false
	}
	if raised {
		s.metrics.recovery.started.Inc()
		s.deps.Log.Error("the budget store has lost its counters: nothing is admitted until they are made anew from the journal",
			"reason", reason, "lost_epoch", lost, "epoch", lost+1, "layout", s.cfg.layout, "max_lease", s.cfg.MaxLease.String())
	}
	return true
}

// markers are the events that say in every partition of the usage topic where a phase of an epoch begins.
func (s *Service) markers(epoch int64, phase string) []outbox.Event {
	return pgstore.EpochMarkers(s.cfg.Secret, epoch, phase, topics.UsageEvents.Partitions())
}
