package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-project/weir/pkg/outbox"
)

// EpochLock is the advisory lock between whoever ends a reservation (shared, to the end of its transaction) and whoever
// writes markers (exclusive). It makes the outbox read: ends that knew the old epoch, marker, ends that know the new one.
const EpochLock int64 = 0x77656972_65706f63 // "weirepoc"

// ErrEpochRaised: Redis' counters are of another epoch than the caller believes, or are being recovered. Nothing was
// written. An end by the settle script (OwnDirect) is to be written again as OwnJournal.
var ErrEpochRaised = errors.New("pgstore: the epoch of the budget store is another one, or is being recovered")

const (
	// lockWait bounds the wait for EpochLock: whoever waits for it exclusively holds up every settle behind it.
	lockWait = 2 * time.Second
	// stuckAfter is how old a transaction that holds EpochLock may be before a raise ends it: no end of a reservation takes
	// a second.
	stuckAfter = 5 * time.Second
	// touchEvery is how old ActiveAt may be before it is rewritten.
	touchEvery = time.Second
	// admitFor is how long a replica admits by one reading of the row (I2).
	admitFor = 2 * time.Second
)

// RedisEpoch is the life of Redis that the counters belong to. Times are Postgres' own; zero = never.
type RedisEpoch struct {
	Epoch int64
	// Recovering: the counters of this epoch are being made; nothing may be admitted.
	Recovering bool
	// Layout is how the counters of this epoch are laid out in Redis (budgetstore.Layout); 0: by a build that had no number.
	Layout int
	// ReplicationIDs are the master_replid of every master that belongs to the epoch; empty: not known yet.
	ReplicationIDs []string
	// ActiveAt is when a replica last read the row in order to admit by it, at most touchEvery before the true time.
	ActiveAt time.Time
	// Lost is the epoch that this one took the place of, at RaisedAt, and LostActiveAt its ActiveAt then; 0 for the first.
	Lost                   int64
	RaisedAt, LostActiveAt time.Time
	// BarrierAt is when the barrier markers were written, RecoveredAt when the recovery ended.
	BarrierAt, RecoveredAt time.Time
	// RaisedIn are the master_replid of the Redis in which the loss was seen; empty: not known.
	RaisedIn []string
	// Seal is the text that Redis must bring back to count as whole; "" = not sealed.
	Seal string
	// LeaseReach is the longest of the replicas whose leases may have run when the epoch was raised (Replica.LeaseReach).
	LeaseReach time.Duration
	// Now is Postgres' clock at the reading.
	Now time.Time
}

// LastLease is an instant after which nothing of an earlier epoch was admitted: no lease of it ends later than this plus
// the longest lease. Zero if there was no earlier epoch.
func (e RedisEpoch) LastLease() time.Time {
	if e.RaisedAt.IsZero() {
		return time.Time{}
	}
	// Whoever read the row at ActiveAt + touchEvery, and so did not rewrite it, admitted for admitFor after that.
	if last := e.LostActiveAt.Add(touchEvery + admitFor); last.Before(e.RaisedAt) {
		return last
	}
	return e.RaisedAt
}

const selectEpoch = `SELECT epoch, layout, state = 'recovering', masters, active_at, lost, raised_at, lost_active_at, barrier_at, recovered_at,
	raised_in, coalesce(seal, ''), (SELECT coalesce(max(lease_reach), '0') FROM admission_replicas r
		WHERE r.at + r.lease_reach > coalesce(raised_at, clock_timestamp()) - interval '1 minute'), clock_timestamp() FROM redis_epoch`

// EpochRow reads the row; false if no epoch was ever made.
func (s *Store) EpochRow(ctx context.Context) (RedisEpoch, bool, error) {
	return epochRow(s.pool.QueryRow(ctx, selectEpoch))
}

// touchEpoch breaks the seal as well: who is about to admit changes Redis.
const touchEpoch = `UPDATE redis_epoch SET active_at = clock_timestamp(), seal = NULL
	WHERE active_at < clock_timestamp() - $1::interval OR seal IS NOT NULL`

// TouchEpoch is EpochRow for a replica that will admit by what it read, for at most 2 s: it is recorded as ActiveAt, at
// most once a second over all replicas, and a seal is broken.
func (s *Store) TouchEpoch(ctx context.Context) (RedisEpoch, bool, error) {
	if _, err := s.pool.Exec(ctx, touchEpoch, touchEvery); err != nil {
		return RedisEpoch{}, false, fmt.Errorf("pgstore: touch epoch: %w", err)
	}
	return s.EpochRow(ctx)
}

func epochRow(r pgx.Row) (RedisEpoch, bool, error) {
	var e RedisEpoch
	var lost *int64
	var raised, lostActive, barrier, recovered *time.Time
	err := r.Scan(&e.Epoch, &e.Layout, &e.Recovering, &e.ReplicationIDs, &e.ActiveAt, &lost, &raised, &lostActive, &barrier, &recovered,
		&e.RaisedIn, &e.Seal, &e.LeaseReach, &e.Now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return RedisEpoch{}, false, nil
	case err != nil:
		return RedisEpoch{}, false, fmt.Errorf("pgstore: read epoch: %w", err)
	}
	if lost != nil {
		e.Lost = *lost
	}
	e.ActiveAt, e.Now = e.ActiveAt.UTC(), e.Now.UTC()
	for to, from := range map[*time.Time]*time.Time{&e.RaisedAt: raised, &e.LostActiveAt: lostActive, &e.BarrierAt: barrier, &e.RecoveredAt: recovered} {
		if from != nil {
			*to = from.UTC()
		}
	}
	return e, true, nil
}

// raiseEpoch takes an epoch's place. What the row said about replication ids is about the lost Redis.
const raiseEpoch = `UPDATE redis_epoch SET epoch = $2, layout = $3, state = 'recovering', masters = '{}', raised_in = $4, lost = $1,
	raised_at = clock_timestamp(), lost_active_at = active_at, barrier_at = NULL, recovered_at = NULL, seal = NULL WHERE epoch = $1 AND layout <= $3`

// RaiseEpoch replaces the epoch lost by next (above it, below 2^52), which is recovering from then on, its counters to be
// laid out so, and appends the markers, one per partition of usage.events.v1, in the same transaction. in are the
// replication ids of the Redis in which the loss was seen, if they are known. Of several callers one is told true; false
// means that the epoch is not lost any more, or has a later layout. It fails when a transaction in flight keeps it waiting
// for 2 s: repeat it.
func (s *Store) RaiseEpoch(ctx context.Context, lost, next int64, layout int, markers []outbox.Event, in ...string) (bool, error) {
	raised, err := s.mark(ctx, markers, raiseEpoch, lost, next, layout, nonNilIDs(in))
	if err != nil {
		return false, fmt.Errorf("pgstore: raise epoch %d: %w", lost, err)
	}
	return raised, nil
}

const addBarrier = `UPDATE redis_epoch SET barrier_at = clock_timestamp() WHERE epoch = $1 AND state = 'recovering' AND barrier_at IS NULL`

// AddBarrier appends the barrier's markers, once per epoch: false if they are there already. ErrEpochRaised if epoch is
// not being recovered (any more). Like RaiseEpoch it may have to be repeated.
func (s *Store) AddBarrier(ctx context.Context, epoch int64, markers []outbox.Event) (bool, error) {
	added, err := s.mark(ctx, markers, addBarrier, epoch)
	if err == nil && !added {
		var e RedisEpoch
		if e, _, err = s.EpochRow(ctx); err == nil && (e.Epoch != epoch || e.BarrierAt.IsZero()) {
			err = ErrEpochRaised
		}
	}
	if err != nil {
		return false, fmt.Errorf("pgstore: barrier of epoch %d: %w", epoch, err)
	}
	return added, nil
}

// mark runs a statement that changes the row or not under the exclusive lock, and appends markers if it did. Whatever
// ended before is committed, so that its events precede the markers; whatever ends later waits for this commit.
// Transactions that hold it up for longer than anybody works are ended, for the sake of the next attempt.
func (s *Store) mark(ctx context.Context, markers []outbox.Event, sql string, args ...any) (changed bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = "+strconv.FormatInt(lockWait.Milliseconds(), 10)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", EpochLock); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		changed = true
		for _, m := range markers {
			if err := outbox.Append(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
		if _, endErr := s.pool.Exec(ctx, endStuck, EpochLock, stuckAfter); endErr != nil {
			err = errors.Join(err, endErr)
		}
	}
	return changed && err == nil, err
}

const lockNotAvailable = "55P03"

// endStuck ends the sessions of processes that stand still in a transaction with EpochLock, in the midst of a batch perhaps,
// where no time-out of the server's runs. What they have not committed will be repeated by whoever asked for it.
const endStuck = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint << 32 | l.objid::bigint = $1
	AND a.datname = current_database() AND a.xact_start < clock_timestamp() - $2::interval`
