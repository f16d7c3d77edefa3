package admission

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
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
	ask, done := s.bounded(ctx)
	defer done()
	if _, err := s.counters.Hold(ask, t, "-"); isLoss(err) {
		s.raise(ctx, t.Epoch, "the counters of tenant "+t.ID+" are gone")
	}
}

// isLoss reports whether counters are certainly not those of the epoch.
func isLoss(err error) bool {
	return errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch)
}

// raiseWithin bounds a raise: it waits for every settle that is being committed.
const raiseWithin = 5 * time.Second

// raise ends an epoch whose counters are lost, with a marker in every partition, unless somebody did already. True: the
// row has changed.
func (s *Service) raise(ctx context.Context, lost int64, reason string) bool {
	write, cancel := context.WithTimeout(ctx, raiseWithin)
	defer cancel()
	raised, err := s.rows.RaiseEpoch(write, lost, lost+1, s.markers(lost+1, usageevent.EpochRaised))
	if err != nil {
		s.logQuietly("raise", "the budget store has lost its counters ("+reason+"), and Postgres cannot be told yet", err)
		return false
	}
	if raised {
		s.metrics.recovery.started.Inc()
		s.deps.Log.Error("the budget store has lost its counters: nothing is admitted until they are made anew from the journal",
			"reason", reason, "lost_epoch", lost, "epoch", lost+1, "max_lease", s.cfg.MaxLease.String())
	}
	return true
}

// markers are the events that say in every partition of the usage topic where a phase of an epoch begins.
func (s *Service) markers(epoch int64, phase string) []outbox.Event {
	return pgstore.EpochMarkers(s.cfg.Secret, epoch, phase, topics.UsageEvents.Partitions())
}
