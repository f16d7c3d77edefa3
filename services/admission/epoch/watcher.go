package epoch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/holdcache"
)

const (
	// interval is how long the row of the epoch is not read again; with what a reading takes, it is read twice a second.
	interval = 300 * time.Millisecond
	// glance is how often Redis is asked meanwhile whether it is still the same master, at 12 to 16 µs of its time.
	glance = 50 * time.Millisecond
	// again is the same after something was changed.
	again = 20 * time.Millisecond
	// inspectWithin bounds the question to Redis, so that one which does not answer makes no reading older than lasts.
	inspectWithin = 600 * time.Millisecond
)

// Config is what a watcher goes by.
type Config struct {
	// Replica is this process, as the others know it.
	Replica string
	// Layout is how this replica lays counters out (budgetstore.Layout).
	Layout int
	// MaxLease is the longest lease that is given here; Deadline bounds a question to a store.
	MaxLease, Deadline time.Duration
	// Secret signs the markers of a raise.
	Secret identity.Secret
}

// leaseReach is how long after a decision to admit a lease may end here.
func (c Config) leaseReach() time.Duration { return c.MaxLease + c.Deadline }

// Deps is what a watcher works with. All fields are required.
type Deps struct {
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time
	Rows     *pgstore.Store
	Counters *budgetstore.Store
	// Holds are swept once everybody was served for as long as they last.
	Holds *holdcache.Cache
	// BeforeServing writes what an epoch must know before this replica serves in it; false: it does not yet.
	BeforeServing func(ctx context.Context, epoch int64) bool
}

// Watcher is one replica's knowledge of the epoch. It is safe for concurrent use.
type Watcher struct {
	cfg  Config
	deps Deps
	life context.Context // of readings that calls wait for

	state    state
	reading  singleflight.Group
	reported reported
	shown    atomic.Int64            // the last epoch to which every hold was shown
	losses   chan budgetstore.Tenant // one that was seen to be lost
	outdated context.Context         // ends, with the reason as its cause, when this replica turns out to be too old
	retire   context.CancelCauseFunc // ends outdated
	metrics  metrics
	quiet    obs.Quiet
}

// New makes a watcher that has read nothing yet; life is that of the process.
func New(life context.Context, cfg Config, deps Deps) *Watcher {
	w := &Watcher{cfg: cfg, deps: deps, life: life, losses: make(chan budgetstore.Tenant, 1), metrics: newMetrics(deps.Registry)}
	w.outdated, w.retire = context.WithCancelCause(context.WithoutCancel(life))
	return w
}

// Fixed is a watcher that has read this row, or that error, at an instant and reads nothing else. For tests of who asks one.
func Fixed(now func() time.Time, row pgstore.RedisEpoch, at time.Time, err error) *Watcher {
	w := &Watcher{deps: Deps{Now: now}}
	w.state.set(row, at, err)
	return w
}

// Current is where the epoch stands; the error says why nobody is served, beside a recovery. Where the last reading is too
// old, because this process stood still or had no turn, it is read again before anybody is refused; calls share that.
func (w *Watcher) Current() (State, error) {
	now, err := w.state.current(w.deps.Now(), w.cfg.leaseReach())
	if !errors.Is(err, errOld) {
		return now, err
	}
	_, _, _ = w.reading.Do("", func() (any, error) { return w.Read(w.life), nil })
	return w.state.current(w.deps.Now(), w.cfg.leaseReach())
}

// Unfit is why this replica refuses every reservation although Redis is the right one: Redis takes no writes, or their clocks
// are apart; nil: neither, as far as the last answer says. What is no reservation is served.
func (w *Watcher) Unfit() error { return w.state.notFit() }

// Last is the row as it was read last, however old that is.
func (w *Watcher) Last() pgstore.RedisEpoch { return w.state.last() }

// Recovering is the row of an epoch whose counters are being made, in a Redis that pending holds may be left in.
func (w *Watcher) Recovering(now time.Time) (pgstore.RedisEpoch, bool) {
	return w.state.recovering(now)
}

// LeasesEnd is when no lease of the epoch that a row took the place of runs any more, by Postgres' clock; zero: there was none.
func (w *Watcher) LeasesEnd(row pgstore.RedisEpoch) time.Time {
	return leasesEnd(row, w.cfg.leaseReach())
}

// Shown tells the other replicas that every hold that this one remembers was shown to the recovery of an epoch.
func (w *Watcher) Shown(epoch int64) { w.shown.Store(epoch) }

// Watch keeps reading what Postgres and Redis say of the epoch until ctx ends.
func (w *Watcher) Watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.Read(ctx) { // what it read has changed by what it did
			pause(ctx, again)
			continue
		}
		w.untilNext(ctx)
	}
	return nil
}

// untilNext waits for the interval, or for what has it read sooner.
func (w *Watcher) untilNext(ctx context.Context) {
	next := time.After(interval)
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-w.losses:
			w.confirmLoss(ctx, t)
			return
		case <-w.deps.Counters.Replaced():
			return
		case <-next:
			return
		case <-time.After(glance):
			if w.glance(ctx) {
				return
			}
		}
	}
}

// glance reports whether a Redis that is served from is not what it was: connections that are open are not compared again.
func (w *Watcher) glance(ctx context.Context) bool {
	if now, err := w.state.current(w.deps.Now(), w.cfg.leaseReach()); err != nil || now.Recovering {
		return false
	}
	ask, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	err := w.deps.Counters.Compare(ask)
	return errors.Is(err, budgetstore.ErrReplica) || errors.Is(err, budgetstore.ErrReplaced)
}

// Read reads the row, asks Redis, and does what follows. True: the row has changed, read it again.
func (w *Watcher) Read(ctx context.Context) bool {
	sent := w.deps.Now()
	read, cancel := w.bounded(ctx)
	defer cancel()
	row, ok, err := w.deps.Rows.EpochRow(read)
	switch {
	case err != nil: // what was read last grows old
		return false
	case !ok:
		w.know(row, sent, fmt.Errorf("%w in Postgres; run `weir init`", budgetstore.ErrNoEpoch))
		return false
	}
	if why := context.Cause(w.outdated); why != nil {
		w.know(row, sent, why)
		return false
	}
	w.admitMasters(row, sent)
	ask, done := context.WithTimeout(ctx, inspectWithin)
	defer done()
	asked := w.deps.Now()
	redis, err := w.deps.Counters.Inspect(ask)
	if err != nil {
		w.unanswered(ctx, row, sent, err)
		return false
	}
	w.fit(unfit(redis, asked, w.deps.Now()))
	return w.actOn(ctx, row, redis, sent)
}

// unanswered is for a Redis that did not say what it is. A replica is nobody's to serve from, whatever its connections say: from
// then on it holds what its master had, under the id that it had itself until it has all of that.
func (w *Watcher) unanswered(ctx context.Context, row pgstore.RedisEpoch, sent time.Time, err error) {
	w.state.unanswered(sent)
	if refusal, refuses := budgetstore.AsRefusal(err); refuses {
		w.fit(refusal)
	}
	reported := w.report(ctx, 0) == nil
	if w.state.stands(row) && reported && !errors.Is(err, budgetstore.ErrReplica) {
		w.keepServing(ctx, row, sent)
		return
	}
	w.know(row, sent, err)
}

// admitMasters lets new connections through to the masters of the row. Between a raise and the moment at which the leader
// has cleared what the lost epoch left, there are none: calls that began before would find their counters there, rolled
// back.
func (w *Watcher) admitMasters(row pgstore.RedisEpoch, sent time.Time) {
	if !row.Recovering || len(row.ReplicationIDs) > 0 {
		w.deps.Counters.Allow(row.ReplicationIDs)
		return
	}
	w.know(row, sent, nil) // nobody is served by what was read before
	w.deps.Counters.AllowNone()
}

// actOn does what the verdict on Redis asks for.
func (w *Watcher) actOn(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing, sent time.Time) bool {
	verdict, reason := w.judge(row, redis, sent)
	sees := int64(0)
	if verdict == recovery.Serve || verdict == recovery.Recover {
		sees = row.Epoch
	}
	if err := w.report(ctx, sees); err != nil {
		w.warn("report", "the other replicas cannot be told what this one sees", err)
		return false // what was read last grows old
	}
	switch verdict {
	case recovery.Serve:
		w.state.saw(redis, sent)
		w.keepServing(ctx, row, sent)
	case recovery.Adopt, recovery.Unseal:
		return w.adopt(ctx, row, redis)
	case recovery.Begin, recovery.Recover:
		w.keepServing(ctx, row, sent) // whoever extends by a receipt is given a lease
	case recovery.Refuse:
		if reason == recovery.Later {
			w.outdate(row)
			return true // to say so
		}
		w.know(row, sent, fmt.Errorf("%w: %s (Postgres says epoch %d, Redis %d)", ErrRefused, reason, row.Epoch, redis.Epoch))
	case recovery.Raise:
		w.know(row, sent, fmt.Errorf("%w: %s", budgetstore.ErrEpoch, reason))
		if row.Recovering && reason != recovery.Earlier { // the leader decides: it is the one that writes there
			return false
		}
		return w.RaiseSeen(ctx, row, redis, reason, sent)
	}
	return false
}

// judge is the verdict on a Redis that was asked at that time.
func (w *Watcher) judge(row pgstore.RedisEpoch, redis budgetstore.Standing, sent time.Time) (recovery.Verdict, recovery.Reason) {
	return recovery.Judge(w.judged(row), saysRedis(redis, w.state.unbroken(redis, sent)))
}

// Judge is the verdict on a Redis that is not known to be unbroken.
func (w *Watcher) Judge(row pgstore.RedisEpoch, redis budgetstore.Standing) (recovery.Verdict, recovery.Reason) {
	return recovery.Judge(w.judged(row), saysRedis(redis, false))
}

func saysRedis(r budgetstore.Standing, unbroken bool) recovery.Redis {
	return recovery.Redis{Epoch: r.Epoch, ReplicationIDs: r.ReplicationIDs, Seal: r.Seal, Formerly: r.Formerly, Unbroken: unbroken}
}

// reportEvery is how often a replica says what it sees, where nothing has changed.
const reportEvery = time.Second

// reported is what this replica last said of itself.
type reported struct {
	mu sync.Mutex
	as pgstore.Replica
	at time.Time
}

// report tells the other replicas which epoch's Redis this one has found, and what they wait for in a recovery.
func (w *Watcher) report(ctx context.Context, sees int64) error {
	w.reported.mu.Lock()
	defer w.reported.mu.Unlock()
	now := w.deps.Now()
	as := pgstore.Replica{ID: w.cfg.Replica, Sees: sees, Shown: w.shown.Load(), LeaseReach: w.cfg.leaseReach()}
	if as == w.reported.as && now.Sub(w.reported.at) < reportEvery {
		return nil
	}
	write, cancel := w.bounded(ctx)
	defer cancel()
	if err := w.deps.Rows.Report(write, as); err != nil {
		return err
	}
	w.reported.as, w.reported.at = as, now
	return nil
}

// keepServing goes on by what was read, and has that recorded once a second: no lease is given later than 2 s after it.
func (w *Watcher) keepServing(ctx context.Context, row pgstore.RedisEpoch, sent time.Time) {
	if row.Seal != "" || row.Now.Sub(row.ActiveAt) > time.Second {
		write, cancel := w.bounded(ctx)
		defer cancel()
		touched, ok, err := w.deps.Rows.TouchEpoch(write)
		if err != nil || !ok || touched.Epoch != row.Epoch || touched.Recovering != row.Recovering {
			return // the next reading tells
		}
		row = touched
	}
	if !row.Recovering && !w.deps.BeforeServing(ctx, row.Epoch) {
		return
	}
	w.know(row, sent, nil)
}

// know takes over what was read.
func (w *Watcher) know(row pgstore.RedisEpoch, at time.Time, err error) {
	w.state.set(row, at, err)
	state := 0.0
	switch {
	case errors.Is(err, ErrOutdated):
		state = 3
	case err != nil, w.state.notFit() != nil && !row.Recovering:
		state = 2
	case row.Recovering:
		state = 1
	}
	w.metrics.serving.Set(state)
	if now := w.deps.Now(); w.state.servedFor(holdcache.Lasts, now) {
		w.deps.Holds.Sweep(now)
	}
}

// adopt records a Redis that is whole. Of several replicas one does it; the others read what it wrote.
func (w *Watcher) adopt(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing) bool {
	write, cancel := w.bounded(ctx)
	defer cancel()
	var done bool
	var err error
	if row.Seal != "" {
		done, err = w.deps.Rows.Unseal(write, row.Epoch, row.Seal, redis.ReplicationIDs)
	} else {
		done, err = w.deps.Rows.SetReplicationIDs(write, row.Epoch, row.ReplicationIDs, redis.ReplicationIDs)
	}
	if err != nil {
		w.warn("adopt", "the budget store's replication id was not recorded", err)
		return false
	}
	if done {
		w.deps.Log.Info("the budget store is whole", "epoch", row.Epoch, "replication_ids", redis.ReplicationIDs, "planned_restart", row.Seal != "")
	}
	return true
}

// warn logs the first of a kind, and then one line every ten seconds.
func (w *Watcher) warn(kind, text string, err error) {
	if w.quiet.Pass(kind, w.deps.Now()) {
		w.deps.Log.Warn(text, "error", err)
	}
}

func (w *Watcher) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.cfg.Deadline)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
