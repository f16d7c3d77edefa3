// Package recovery owns what a replica of admission concludes from Postgres' row of the epoch and from what Redis says
// of itself, and the order of the steps that bring lost counters back (ADR 0009).
//
// It owns: the verdict on a Redis (Judge), when the last lease of a lost epoch has ended, what comes next in a recovery,
// and how long callers are told to wait. It does not own the row (pkg/pgstore), the counters (pkg/budgetstore), or how a
// step is done (services/admission).
//
// Invariants:
//   - Only a Redis that is known to have all of the epoch's writes is served from.
//   - A Redis of somebody else is never taken over: its counters would be overwritten.
//   - Counters are read and written by builds of their own layout only; of two builds the later one has its way.
//   - Nothing is admitted before the barrier's entries are applied to every tenant.
package recovery

import (
	"slices"
	"time"
)

// Row is what Postgres says of the epoch.
type Row struct {
	Epoch int64
	// Recovering: the counters of the epoch are being made.
	Recovering bool
	// Layout is how the epoch's counters are laid out in Redis, compared with what this build knows: below 0 an earlier
	// layout, above 0 a later one.
	Layout int
	// ReplicationIDs are those of the masters that hold the epoch, or, while it is recovering, that its counters are being
	// made in. Empty: not known yet.
	ReplicationIDs []string
	// Seal is the token that a Redis brings back which has lost nothing; "" = none.
	Seal string
}

// Redis is what Redis says of itself.
type Redis struct {
	// Epoch is what w:epoch says; 0 = it is not there.
	Epoch int64
	// ReplicationIDs are the master_replid of its masters.
	ReplicationIDs []string
	Seal           string
	// Formerly are the master_replid of the masters that its masters were replicas of.
	Formerly []string
	// Unbroken: these are the processes that held the epoch a moment ago, and none of them was a replica since. A master
	// draws a new id when its first replica comes, too.
	Unbroken bool
}

// Verdict is what to do about a Redis.
type Verdict int

// The verdicts.
const (
	// Serve: it is whole.
	Serve Verdict = iota
	// Adopt: it is whole, and its replication ids are to be recorded: the row has none yet, or they changed with nothing lost.
	Adopt
	// Unseal: it was restarted as planned and brought its seal back: its replication ids are to be recorded.
	Unseal
	// Raise: it has lost what the epoch wrote; the epoch is over.
	Raise
	// Begin: the epoch was raised, and its counters are to be made in this Redis.
	Begin
	// Recover: its counters are being made in it.
	Recover
	// Refuse: it is not ours to change, and not fit to serve from. An operator must look.
	Refuse
)

// Reason says why, for people.
type Reason string

// The reasons of Raise and Refuse.
const (
	Emptied    Reason = "redis is empty"
	RolledBack Reason = "redis holds the counters of an earlier epoch"
	Restarted  Reason = "redis was restarted, failed over or restored (its replication id is another one)"
	Ahead      Reason = "redis is of a later epoch than Postgres: Postgres was restored from a backup, or the addresses do not belong together"
	Foreign    Reason = "redis holds the counters of another Weir"
	Earlier    Reason = "redis is laid out as an earlier build did it"
	Later      Reason = "redis is laid out as a later build does it: this replica is too old, replace it"
)

// ownEpochs is how far below the row's epoch one of ours may be: a recovery takes the next number, and the first was
// drawn from 2^52, so another Weir is that near once in four billion.
const ownEpochs = 1 << 20

// Judge decides about a Redis by what it and Postgres say.
func Judge(row Row, redis Redis) (Verdict, Reason) {
	switch {
	case redis.Epoch > row.Epoch && redis.Epoch-row.Epoch < ownEpochs:
		return Refuse, Ahead
	case redis.Epoch > row.Epoch, redis.Epoch != 0 && row.Epoch-redis.Epoch > ownEpochs:
		return Refuse, Foreign
	case row.Layout > 0:
		return Refuse, Later
	case row.Layout < 0:
		return Raise, Earlier
	case row.Recovering && len(row.ReplicationIDs) == 0:
		return Begin, ""
	case redis.Epoch == 0:
		return Raise, Emptied
	case redis.Epoch < row.Epoch:
		return Raise, RolledBack
	case len(row.ReplicationIDs) == 0:
		return Adopt, ""
	case known(redis.ReplicationIDs, row.ReplicationIDs):
		if row.Recovering {
			return Recover, ""
		}
		return Serve, ""
	case redis.Unbroken && !row.Recovering:
		return Adopt, ""
	case row.Seal != "" && row.Seal == redis.Seal:
		return Unseal, ""
	default:
		return Raise, Restarted
	}
}

// known reports whether every master is one of those that belong to the epoch. A Redis without any is none.
func known(ids, belong []string) bool {
	for _, id := range ids {
		if !slices.Contains(belong, id) {
			return false
		}
	}
	return len(ids) > 0
}

// Certain reports whether a loss that Judge found in a Redis is everybody's: this is the very Redis that the epoch is in,
// or the replica that was promoted in its place. Any other one may be one that this replica alone was led to (a stale
// address, a split network), while the others serve from the right one: then they must be asked.
func Certain(row Row, redis Redis) bool {
	return known(redis.ReplicationIDs, row.ReplicationIDs) || known(redis.Formerly, row.ReplicationIDs)
}

// stale is how long after a raise a replica may still decide to admit by what it read before.
const stale = 2 * time.Second

// LeasesEnd is when no lease of a lost epoch runs any more. last is the instant after which nobody read it as ready; reach
// is the longest time from such a decision to the end of the lease: what the script may be waited for, and the lease.
func LeasesEnd(last time.Time, reach time.Duration) time.Time {
	return last.Add(stale + reach)
}

// Step is what a recovery does next.
type Step int

// The steps, in their order.
const (
	// Wait for the leases of the lost epoch to end, and for the replicas to show their holds.
	Wait Step = iota
	// Barrier: write the markers behind which nothing of the lost epoch comes.
	Barrier
	// Load every tenant's base, and the holds whose owners showed their receipts.
	Load
	// Apply what the journal has between the two markers.
	Apply
	// Limits: give executions their limits and revocations back.
	Limits
	// Verify that Redis is still the one that all of this was written to.
	Verify
	// Finish: open the epoch.
	Finish
	// Done: nothing is left to do.
	Done
)

// String names a step for logs and metrics.
func (s Step) String() string {
	return [...]string{"wait", "barrier", "load", "apply", "limits", "verify", "finish", "done"}[s]
}

// Progress is what a coordinator has done. What another one did is not carried over, except for what Postgres knows: the
// barrier, and the end. Every step may be done again.
type Progress struct {
	Now, LeasesEnd time.Time
	// Shown: every replica has shown the holds that it remembers.
	Shown bool
	// Barrier: the markers are in the outbox.
	Barrier bool
	// Loaded, Applied, Limited and Verified are this coordinator's own, in this order.
	Loaded, Applied, Limited, Verified bool
	Finished                           bool
}

// Next is the step after p.
func Next(p Progress) Step {
	switch {
	case p.Finished:
		return Done
	case !p.Barrier && (p.Now.Before(p.LeasesEnd) || !p.Shown):
		return Wait
	case !p.Barrier:
		return Barrier
	case !p.Loaded:
		return Load
	case !p.Applied:
		return Apply
	case !p.Limited:
		return Limits
	case !p.Verified:
		return Verify
	default:
		return Finish
	}
}

// Bounds of what a caller is told to wait.
const (
	// work is what a recovery takes beside the leases, as a rule.
	work = 2 * time.Second
	// longest keeps a caller from coming back long after the end, where that came sooner.
	longest = 30 * time.Second
)

// RetryAfter is how long a refused caller waits, before any jitter: until the recovery may be over, at most 30 s, at
// least 1 s. leasesEnd is zero where it is not known.
func RetryAfter(now, leasesEnd time.Time) time.Duration {
	return min(longest, max(0, leasesEnd.Sub(now))+work)
}
