package epoch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/pgstore"
)

const (
	// lasts is how long a replica serves by one reading (I2).
	lasts = 2 * time.Second
	// seenLasts is how long ago a Redis must have been whole for its processes to count as unbroken.
	seenLasts = time.Minute
)

// Why nobody is served, beside what the budget store itself says.
var (
	// ErrUnknown: nothing was read yet.
	ErrUnknown = errors.New("the epoch of the budget store was not read yet")
	// ErrRefused: an operator must look.
	ErrRefused = errors.New("the budget store is not ours to serve from")
	// ErrOutdated: this process will never serve again.
	ErrOutdated  = errors.New("this replica is of an earlier build than the counters, and is to be replaced")
	errOld       = errors.New("the epoch of the budget store was not read for 2 s")
	errElsewhere = errors.New("this replica is led to another Redis than the others, which still serve from theirs")
)

// State is where the epoch stands.
type State struct {
	Epoch int64
	// Recovering: its counters are being made anew, and nobody is served until then.
	Recovering bool
	// Retry is how long a caller should wait then, Left how long leases of the lost epoch may still run; not above 0: the rest
	// is quick, as a rule.
	Retry, Left time.Duration
}

// state is what was read, and since when.
type state struct {
	mu sync.RWMutex
	// row was read at, a time of this process' own clock from before it was asked for.
	row pgstore.RedisEpoch
	at  time.Time
	// err says why nobody is served; recovering is not among it.
	err error
	// unfit is why no reservation is taken all the same, by the last answer of Redis.
	unfit error
	// whole is the row of the last Redis that was found to be whole: while Redis does not answer, that stands.
	whole pgstore.RedisEpoch
	// unserved is when nobody was last to be served, by what was read.
	unserved time.Time
	// seen is what that Redis said of itself, at seenAt.
	seen   budgetstore.Standing
	seenAt time.Time
}

// current is where the epoch stands; the error says why nobody is served, beside a recovery.
func (e *state) current(now time.Time, reach time.Duration) (State, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.err != nil:
		return State{}, e.err
	case e.at.IsZero():
		return State{}, ErrUnknown
	case now.Sub(e.at) > lasts:
		return State{}, errOld
	case e.row.Recovering:
		at, end := e.row.Now.Add(now.Sub(e.at)), leasesEnd(e.row, reach)
		return State{Epoch: e.row.Epoch, Recovering: true, Retry: recovery.RetryAfter(at, end), Left: end.Sub(at)}, nil
	}
	return State{Epoch: e.row.Epoch}, nil
}

// recovering is the row of an epoch whose counters are being made, in a Redis that pending holds may be left in.
func (e *state) recovering(now time.Time) (pgstore.RedisEpoch, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.row, e.err == nil && e.row.Recovering && len(e.row.ReplicationIDs) > 0 && now.Sub(e.at) <= lasts
}

func (e *state) last() pgstore.RedisEpoch {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.row
}

func (e *state) set(row pgstore.RedisEpoch, at time.Time, err error) {
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
func (e *state) unanswered(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unserved = at
}

// fit takes over why no reservation is taken.
func (e *state) fit(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unfit = why
}

func (e *state) notFit() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.unfit
}

// servedFor reports whether everybody was served for d.
func (e *state) servedFor(d time.Duration, now time.Time) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.err == nil && !e.row.Recovering && now.Sub(e.at) < lasts && now.Sub(e.unserved) > d
}

// saw remembers a Redis that was found to be whole.
func (e *state) saw(redis budgetstore.Standing, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen, e.seenAt = redis, at
}

// unbroken reports whether Redis is the one that was whole a moment ago.
func (e *state) unbroken(redis budgetstore.Standing, now time.Time) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return now.Sub(e.seenAt) < seenLasts && redis.Unbroken(e.seen)
}

// stands reports whether a Redis that cannot be asked was whole when it last was, by the same row.
func (e *state) stands(row pgstore.RedisEpoch) bool {
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
