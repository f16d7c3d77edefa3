package epoch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Lost tells the watcher that a tenant's counters are gone, or of an earlier epoch. One at a time is enough.
func (w *Watcher) Lost(t budgetstore.Tenant) {
	select {
	case w.losses <- t:
	default:
	}
}

// confirmLoss raises the epoch if a tenant's counters must exist in it and do not. A key is made before its row says
// ready, so there is no moment at which that is not a loss.
func (w *Watcher) confirmLoss(ctx context.Context, t budgetstore.Tenant) {
	if now, err := w.Current(); err != nil || now.Recovering || now.Epoch != t.Epoch {
		return
	}
	read, cancel := w.bounded(ctx)
	defer cancel()
	state, err := w.deps.Rows.TenantState(read, t.ID, t.Epoch)
	if err != nil || state != pgstore.StateReady {
		return
	}
	row, sent := w.state.last(), w.deps.Now()
	redis, counters, err := w.afresh(ctx)
	if err != nil {
		return
	}
	defer func() { _ = counters.Close() }()
	if verdict, _ := w.judge(row, redis, sent); verdict != recovery.Serve {
		return // another Redis: whoever watches the epoch will see
	}
	ask, done := w.bounded(ctx)
	defer done()
	if _, err := counters.Hold(ask, t, "-"); errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch) {
		w.raise(ctx, t.Epoch, "the counters of tenant "+t.ID+" are gone", redis.ReplicationIDs)
		return
	}
	w.contradicted(byConnection, "an old connection has lost the counters of a tenant, a new one has not: it is left to end")
}

// RaiseSeen raises the epoch because of what this replica has seen of Redis, if that is so by a new connection too, and is
// not what this replica alone was led to. True: the row has changed.
func (w *Watcher) RaiseSeen(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing, reason recovery.Reason, sent time.Time) bool {
	if !recovery.Certain(w.judged(row), saysRedis(redis, false)) {
		ask, cancel := w.bounded(ctx)
		defer cancel()
		others, err := w.deps.Rows.OthersSee(ask, w.cfg.Replica, row.Epoch)
		if err != nil {
			return false
		}
		if others > 0 {
			w.know(row, sent, fmt.Errorf("%w: %s", errElsewhere, reason))
			w.contradicted(byReplicas, "this replica is led to another Redis than the others, and refuses: look at the address, DNS and Sentinel",
				"reason", reason, "epoch", row.Epoch, "replication_ids", redis.ReplicationIDs, "others", others, "theirs", row.ReplicationIDs)
			return false
		}
	}
	redis, counters, err := w.afresh(ctx)
	if err != nil {
		return false
	}
	_ = counters.Close()
	if verdict, _ := w.judge(row, redis, sent); verdict != recovery.Raise {
		w.contradicted(byConnection, "an old connection leads to another Redis than a new one: it is left to end", "reason", reason)
		return false
	}
	return w.raise(ctx, row.Epoch, string(reason), redis.ReplicationIDs)
}

// afresh asks Redis what it is by new connections. The caller closes the store.
func (w *Watcher) afresh(ctx context.Context) (budgetstore.Standing, *budgetstore.Store, error) {
	counters, err := w.deps.Counters.Afresh()
	if err != nil {
		return budgetstore.Standing{}, nil, err
	}
	ask, cancel := w.bounded(ctx)
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
func (w *Watcher) contradicted(by, text string, args ...any) {
	w.metrics.contradicted.WithLabelValues(by).Inc()
	if w.quiet.Pass("contradicted "+by, w.deps.Now()) {
		w.deps.Log.Error(text, args...)
	}
}

// raiseWithin bounds a raise: it waits for every settle that is being committed.
const raiseWithin = 5 * time.Second

// raise ends an epoch whose counters are lost, with a marker in every partition, unless somebody did already. in are the
// replication ids of the Redis that was seen. True: the row has changed.
func (w *Watcher) raise(ctx context.Context, lost int64, reason string, in []string) bool {
	write, cancel := context.WithTimeout(ctx, raiseWithin)
	defer cancel()
	markers := pgstore.EpochMarkers(w.cfg.Secret, lost+1, usageevent.EpochRaised, topics.UsageEvents.Partitions())
	raised, err := w.deps.Rows.RaiseEpoch(write, lost, lost+1, w.cfg.Layout, markers, in...)
	if err != nil {
		w.warn("raise", "the budget store has lost its counters ("+reason+"), and Postgres cannot be told yet", err)
		return false
	}
	if raised {
		w.metrics.started.Inc()
		w.deps.Log.Error("the budget store has lost its counters: nothing is admitted until they are made anew from the journal",
			"reason", reason, "lost_epoch", lost, "epoch", lost+1, "layout", w.cfg.Layout, "max_lease", w.cfg.MaxLease.String())
	}
	return true
}
