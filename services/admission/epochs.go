package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/holdcache"
)

const (
	// epochInterval is how long the row of the epoch is not read again; with what a reading takes, it is read twice a second.
	epochInterval = 300 * time.Millisecond
	// epochAgain is the same after something was changed.
	epochAgain = 20 * time.Millisecond
	// epochLasts is how long a replica serves by one reading (design.md 4.4).
	epochLasts = 2 * time.Second
	// inspectWithin bounds the question to Redis, so that one which does not answer makes no reading older than epochLasts.
	inspectWithin = 600 * time.Millisecond
	// seenLasts is how long ago a Redis must have been whole for its processes to count as unbroken.
	seenLasts = time.Minute
)

// Why nobody is served, beside what the budget store itself says.
var (
	errEpochUnknown = errors.New("the epoch of the budget store was not read yet")
	errEpochOld     = errors.New("the epoch of the budget store was not read for 2 s")
	errRefused      = errors.New("the budget store is not ours to serve from")
	errElsewhere    = errors.New("this replica is led to another Redis than the others, which still serve from theirs")
)

// recoveringError says that the counters of the epoch are being made anew.
type recoveringError struct {
	epoch int64
	// retry is how long a caller should wait.
	retry time.Duration
	// left is how long leases of the lost epoch may still run; 0: the rest is quick, as a rule.
	left time.Duration
}

func (e recoveringError) Error() string {
	if e.left <= 0 {
		return fmt.Sprintf("the budget store was lost; the counters of epoch %d are being made anew from the journal", e.epoch)
	}
	return fmt.Sprintf("the budget store was lost; the counters of epoch %d are being made anew from the journal, in %s, when no lease of the lost ones runs any more",
		e.epoch, e.left.Round(time.Second))
}

// ReadyCode is what /readyz says of it to programs: the code of the calls that are refused meanwhile.
func (e recoveringError) ReadyCode() string { return string(admit.StoreRecovering) }

// epochs is which life of Redis this replica works with.
type epochs struct {
	mu sync.RWMutex
	// row was read at, a time of this process' own clock from before it was asked for.
	row pgstore.RedisEpoch
	at  time.Time
	// err says why nobody is served; recovering is not among it.
	err error
	// whole is the row of the last Redis that was found to be whole: while Redis does not answer, that stands.
	whole pgstore.RedisEpoch
	// unserved is when nobody was last to be served, by what was read.
	unserved time.Time
	// seen is what that Redis said of itself, at seenAt.
	seen   budgetstore.Standing
	seenAt time.Time
}

// ready is the epoch to serve in now.
func (e *epochs) ready(now time.Time, reach time.Duration) (int64, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.err != nil:
		return 0, e.err
	case e.at.IsZero():
		return 0, errEpochUnknown
	case now.Sub(e.at) > epochLasts:
		return 0, errEpochOld
	case e.row.Recovering:
		at, end := e.row.Now.Add(now.Sub(e.at)), leasesEnd(e.row, reach)
		return 0, recoveringError{epoch: e.row.Epoch, retry: recovery.RetryAfter(at, end), left: end.Sub(at)}
	}
	return e.row.Epoch, nil
}

// recovering is the row of an epoch whose counters are being made, in a Redis that pending holds may be left in.
func (e *epochs) recovering(now time.Time) (pgstore.RedisEpoch, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.row, e.err == nil && e.row.Recovering && len(e.row.ReplicationIDs) > 0 && now.Sub(e.at) <= epochLasts
}

func (e *epochs) last() pgstore.RedisEpoch {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.row
}

func (e *epochs) set(row pgstore.RedisEpoch, at time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.Before(e.at) { // a reading that was overtaken
		return
	}
	e.row, e.at, e.err = row, at, err
	if err == nil && !row.Recovering {
		e.whole = row
	} else {
		e.unserved = at
	}
}

// unanswered: Redis was asked at that time, in vain.
func (e *epochs) unanswered(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unserved = at
}

// servedFor reports whether everybody was served for d.
func (e *epochs) servedFor(d time.Duration, now time.Time) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.err == nil && !e.row.Recovering && now.Sub(e.at) < epochLasts && now.Sub(e.unserved) > d
}

// saw remembers a Redis that was found to be whole.
func (e *epochs) saw(redis budgetstore.Standing, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen, e.seenAt = redis, at
}

// unbroken reports whether Redis is the one that was whole a moment ago.
func (e *epochs) unbroken(redis budgetstore.Standing, now time.Time) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return now.Sub(e.seenAt) < seenLasts && redis.Unbroken(e.seen)
}

// stands reports whether a Redis that cannot be asked was whole when it last was, by the same row.
func (e *epochs) stands(row pgstore.RedisEpoch) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return !row.Recovering && row.Seal == "" && e.whole.Epoch == row.Epoch && slices.Equal(e.whole.ReplicationIDs, row.ReplicationIDs)
}

// leasesEnd is when no lease of the lost epoch runs any more, by Postgres' clock. reach is this replica's own; that of any
// other may be longer.
func leasesEnd(row pgstore.RedisEpoch, reach time.Duration) time.Time {
	last := row.LastLease()
	if last.IsZero() {
		return last
	}
	return recovery.LeasesEnd(last, max(reach, row.LeaseReach))
}

// leaseReach is how long after a decision to admit a lease may end here.
func (c Config) leaseReach() time.Duration { return c.MaxLease + c.Deadline }

// of names a tenant in the epoch of now.
func (s *Service) of(tenant string) (budgetstore.Tenant, error) {
	epoch, err := s.epoch()
	if err != nil {
		return budgetstore.Tenant{}, err
	}
	return budgetstore.Tenant{ID: tenant, Epoch: epoch}, nil
}

// epoch is the one of now; the error says why nobody is served. Where the last reading is too old, because this process
// stood still or had no turn, it is read again before anybody is refused; calls share that.
func (s *Service) epoch() (int64, error) {
	epoch, err := s.epochs.ready(s.deps.Now(), s.cfg.leaseReach())
	if !errors.Is(err, errEpochOld) {
		return epoch, err
	}
	_, _, _ = s.reading.Do("", func() (any, error) { return s.readEpoch(s.life), nil })
	return s.epochs.ready(s.deps.Now(), s.cfg.leaseReach())
}

// sameEpoch is the readiness check: a replica that refuses every reservation must not look ready.
func (s *Service) sameEpoch(context.Context) error {
	_, err := s.epoch()
	return err
}

// watchEpoch keeps reading what Postgres and Redis say of the epoch until ctx ends.
func (s *Service) watchEpoch(ctx context.Context) error {
	for ctx.Err() == nil {
		if s.readEpoch(ctx) { // what it read has changed by what it did
			pause(ctx, epochAgain)
			continue
		}
		select {
		case <-ctx.Done():
		case t := <-s.losses:
			s.confirmLoss(ctx, t)
		case <-s.counters.Replaced():
		case <-time.After(epochInterval):
		}
	}
	return nil
}

// readEpoch reads the row, asks Redis, and does what follows. True: the row has changed, read it again.
func (s *Service) readEpoch(ctx context.Context) bool {
	sent := s.deps.Now()
	read, cancel := s.bounded(ctx)
	defer cancel()
	row, ok, err := s.rows.EpochRow(read)
	switch {
	case err != nil: // what was read last grows old
		return false
	case !ok:
		s.know(row, sent, fmt.Errorf("%w in Postgres; run `weir init`", budgetstore.ErrNoEpoch))
		return false
	}
	if why := context.Cause(s.outdated); why != nil {
		s.know(row, sent, why)
		return false
	}
	s.admitMasters(row, sent)
	ask, done := context.WithTimeout(ctx, inspectWithin)
	defer done()
	redis, err := s.counters.Inspect(ask)
	if err != nil {
		s.epochs.unanswered(sent)
		reported := s.report(ctx, 0) == nil
		if s.epochs.stands(row) && reported {
			s.keepServing(ctx, row, sent)
		} else {
			s.know(row, sent, err)
		}
		return false
	}
	return s.actOn(ctx, row, redis, sent)
}

// admitMasters lets new connections through to the masters of the row. Between a raise and the moment at which the leader
// has cleared what the lost epoch left, there are none: calls that began before would find their counters there, rolled
// back.
func (s *Service) admitMasters(row pgstore.RedisEpoch, sent time.Time) {
	if !row.Recovering || len(row.ReplicationIDs) > 0 {
		s.counters.Allow(row.ReplicationIDs)
		return
	}
	s.know(row, sent, nil) // nobody is served by what was read before
	s.counters.AllowNone()
}

// actOn does what the verdict on Redis asks for.
func (s *Service) actOn(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing, sent time.Time) bool {
	verdict, reason := recovery.Judge(s.judged(row), saysRedis(redis, s.epochs.unbroken(redis, sent)))
	sees := int64(0)
	if verdict == recovery.Serve || verdict == recovery.Recover {
		sees = row.Epoch
	}
	if err := s.report(ctx, sees); err != nil {
		s.logQuietly("report", "the other replicas cannot be told what this one sees", err)
		return false // what was read last grows old
	}
	switch verdict {
	case recovery.Serve:
		s.epochs.saw(redis, sent)
		s.keepServing(ctx, row, sent)
	case recovery.Adopt, recovery.Unseal:
		return s.adopt(ctx, row, redis)
	case recovery.Begin, recovery.Recover:
		s.keepServing(ctx, row, sent) // whoever extends by a receipt is given a lease
	case recovery.Refuse:
		if reason == recovery.Later {
			s.outdate(row)
			return true // to say so
		}
		s.know(row, sent, fmt.Errorf("%w: %s (Postgres says epoch %d, Redis %d)", errRefused, reason, row.Epoch, redis.Epoch))
	case recovery.Raise:
		s.know(row, sent, fmt.Errorf("%w: %s", budgetstore.ErrEpoch, reason))
		if row.Recovering && reason != recovery.Earlier { // the leader decides: it is the one that writes there
			return false
		}
		return s.raiseSeen(ctx, row, redis, reason, sent)
	}
	return false
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
func (s *Service) report(ctx context.Context, sees int64) error {
	s.reported.mu.Lock()
	defer s.reported.mu.Unlock()
	now := s.deps.Now()
	as := pgstore.Replica{ID: s.id, Sees: sees, Shown: s.shown.Load(), LeaseReach: s.cfg.leaseReach()}
	if as == s.reported.as && now.Sub(s.reported.at) < reportEvery {
		return nil
	}
	write, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.rows.Report(write, as); err != nil {
		return err
	}
	s.reported.as, s.reported.at = as, now
	return nil
}

// keepServing goes on by what was read, and has that recorded once a second: no lease is given later than 2 s after it.
func (s *Service) keepServing(ctx context.Context, row pgstore.RedisEpoch, sent time.Time) {
	if row.Seal != "" || row.Now.Sub(row.ActiveAt) > time.Second {
		write, cancel := s.bounded(ctx)
		defer cancel()
		touched, ok, err := s.rows.TouchEpoch(write)
		if err != nil || !ok || touched.Epoch != row.Epoch || touched.Recovering != row.Recovering {
			return // the next reading tells
		}
		row = touched
	}
	if !row.Recovering && !s.revokeQueued(ctx, row.Epoch) {
		return
	}
	s.know(row, sent, nil)
}

// know takes over what was read.
func (s *Service) know(row pgstore.RedisEpoch, at time.Time, err error) {
	s.epochs.set(row, at, err)
	state := 0.0
	switch {
	case errors.Is(err, errOutdated):
		state = 3
	case err != nil:
		state = 2
	case row.Recovering:
		state = 1
	}
	s.metrics.recovery.serving.Set(state)
	if now := s.deps.Now(); s.epochs.servedFor(holdcache.Lasts, now) {
		s.holds.Sweep(now)
	}
}

// adopt records a Redis that is whole. Of several replicas one does it; the others read what it wrote.
func (s *Service) adopt(ctx context.Context, row pgstore.RedisEpoch, redis budgetstore.Standing) bool {
	write, cancel := s.bounded(ctx)
	defer cancel()
	var done bool
	var err error
	if row.Seal != "" {
		done, err = s.rows.Unseal(write, row.Epoch, row.Seal, redis.ReplicationIDs)
	} else {
		done, err = s.rows.SetReplicationIDs(write, row.Epoch, row.ReplicationIDs, redis.ReplicationIDs)
	}
	if err != nil {
		s.logQuietly("adopt", "the budget store's replication id was not recorded", err)
		return false
	}
	if done {
		s.deps.Log.Info("the budget store is whole", "epoch", row.Epoch, "replication_ids", redis.ReplicationIDs, "planned_restart", row.Seal != "")
	}
	return true
}

// logQuietly warns once per ten seconds and kind.
func (s *Service) logQuietly(kind, text string, err error) {
	if s.quiet.pass(kind, s.deps.Now()) {
		s.deps.Log.Warn(text, "error", err)
	}
}
