package epoch

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/pgstore"
)

// Replicas of builds that lay counters out differently (ADR 0015): an epoch has one layout. Who knows a later one raises the
// epoch; who knows an earlier one only touches nothing any more.

// judged is the row as a verdict takes it.
func (w *Watcher) judged(e pgstore.RedisEpoch) recovery.Row {
	return recovery.Row{Epoch: e.Epoch, Recovering: e.Recovering, Layout: e.Layout - w.cfg.Layout, ReplicationIDs: e.ReplicationIDs, Seal: e.Seal}
}

// MayLead reports whether there is a recovery that this replica can carry out.
func (w *Watcher) MayLead(row pgstore.RedisEpoch) bool {
	return row.Recovering && row.Layout == w.cfg.Layout
}

// outdate is for good: the readers have left their groups then.
func (w *Watcher) outdate(row pgstore.RedisEpoch) {
	w.retire(fmt.Errorf("%w: it lays them out as number %d, those of epoch %d are %d", ErrOutdated, w.cfg.Layout, row.Epoch, row.Layout))
	w.deps.Log.Error("a later build has taken the budget store over: this replica admits nothing any more, and is to be replaced",
		"layout", w.cfg.Layout, "epoch", row.Epoch, "its_layout", row.Layout)
}

// UntilOutdated runs a reader, and leaves its group when this replica is outdated: what it reads would wait here, unapplied,
// for as long as the process stands, and other replicas can apply it.
func (w *Watcher) UntilOutdated(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(w.outdated, stop)()
		if err := run(reading); err != nil || ctx.Err() != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}
