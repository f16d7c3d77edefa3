package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/pgstore"
)

// Replicas of builds that lay counters out differently (ADR 0015): an epoch has one layout. Who knows a later one raises the
// epoch; who knows an earlier one only touches nothing any more.

// errOutdated: this process will never serve again.
var errOutdated = errors.New("this replica is of an earlier build than the counters, and is to be replaced")

// judged is the row as a verdict takes it.
func (s *Service) judged(e pgstore.RedisEpoch) recovery.Row {
	return recovery.Row{Epoch: e.Epoch, Recovering: e.Recovering, Layout: e.Layout - s.cfg.layout, ReplicationIDs: e.ReplicationIDs, Seal: e.Seal}
}

// mayLead reports whether there is a recovery that this replica can carry out.
func (s *Service) mayLead(row pgstore.RedisEpoch) bool {
	return row.Recovering && row.Layout == s.cfg.layout
}

// outdate is for good: the readers have left their groups then.
func (s *Service) outdate(row pgstore.RedisEpoch) {
	s.retire(fmt.Errorf("%w: it lays them out as number %d, those of epoch %d are %d", errOutdated, s.cfg.layout, row.Epoch, row.Layout))
	s.deps.Log.Error("a later build has taken the budget store over: this replica admits nothing any more, and is to be replaced",
		"layout", s.cfg.layout, "epoch", row.Epoch, "its_layout", row.Layout)
}

// untilOutdated runs a reader, and leaves its group when this replica is outdated: what it reads would wait here, unapplied,
// for as long as the process stands, and other replicas can apply it.
func (s *Service) untilOutdated(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(s.outdated, stop)()
		if err := run(reading); err != nil || ctx.Err() != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}
