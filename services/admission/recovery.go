package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/recovery"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
	"github.com/weir-project/weir/services/admission/epoch"
)

const (
	// leadInterval is how often a replica that does not lead a recovery asks whether it may.
	leadInterval = 500 * time.Millisecond
	// stepPause is between two tries of a step, and checkInterval how often a step that waits looks whether the recovery is
	// still this one.
	stepPause     = 500 * time.Millisecond
	checkInterval = time.Second
	// showWithin is what replicas get to show their holds, from when they may. The leases take longer, as a rule.
	showWithin = 10 * time.Second
	// elsewhereWithin is how long after a raise only a replica that sees the same Redis as the one that raised may begin.
	elsewhereWithin = 10 * time.Second
	// markWithin bounds taking the lead, and the barrier, which waits for every settle that is being committed.
	markWithin = 5 * time.Second
	// sayInterval is how often a recovery that waits says for what.
	sayInterval = 10 * time.Second
)

// errOver: the recovery is another one's to carry out, or there is none any more.
var errOver = errors.New("the recovery is over, or another one's")

// recoverer carries one recovery out, as its leader (ADR 0009). Whoever takes it over begins at the first step, but
// for the barrier: every step may be done again.
type recoverer struct {
	s      *Service
	lead   *pgstore.Lead
	maker  budgetstore.Maker
	row    pgstore.RedisEpoch // as of readAt
	readAt time.Time
	began  time.Time
	begun  time.Time // since when holds may be shown, as far as this leader knows
	books  []*book   // by partition
	did    recovery.Progress

	// What was done, for the log: tenants, pending holds that became open ones, journal entries, executions.
	loaded                      map[string]bool
	merged, applied, executions int
	// What was last said, and when.
	saidFor              string
	saidAt, saidFailedAt time.Time
}

// recoverLost carries recoveries out while this replica leads, until ctx ends.
func (s *Service) recoverLost(ctx context.Context) error {
	for ctx.Err() == nil {
		if s.epochs.MayLead(s.epochs.Last()) && s.catalogs.loaded() { // limits of executions are made from contracts
			if err := s.lead(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errOver) {
				s.logQuietly("lead", "a recovery of the budget store does not advance here", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(leadInterval):
		}
	}
	return nil
}

// lead carries the recovery out if nobody else does.
func (s *Service) lead(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, markWithin)
	defer cancel()
	lead, err := s.rows.TryLead(try)
	if err != nil || lead == nil {
		return err
	}
	defer func() {
		end, done := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Deadline)
		defer done()
		_ = lead.Close(end) // the server gives the lead up by itself
	}()
	r := &recoverer{s: s, lead: lead, began: s.deps.Now(), begun: s.deps.Now(), loaded: map[string]bool{}}
	if r.maker.Generation, err = lead.Generation(try); err != nil {
		return err
	}
	row, ok, err := s.rows.EpochRow(try)
	if err != nil || !ok || !s.epochs.MayLead(row) {
		return err
	}
	r.maker.Epoch, r.row, r.readAt = row.Epoch, row, s.deps.Now()
	s.deps.Log.Warn("this replica leads the recovery of the budget store", "epoch", row.Epoch, "leases_end", s.epochs.LeasesEnd(row),
		"about", s.recoveryLeft(row).Round(time.Second).String())
	err = r.run(ctx)
	s.metrics.recovery.step.Set(0)
	return err
}

// recoveryLeft is how long the leases of the lost epoch may still run, as of the reading of row.
func (s *Service) recoveryLeft(row pgstore.RedisEpoch) time.Duration {
	return max(0, s.epochs.LeasesEnd(row).Sub(row.Now))
}

// run does one step after the other, each until it succeeds.
func (r *recoverer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := r.check(ctx)
		if err == nil {
			step := recovery.Next(r.progress())
			if step == recovery.Done {
				return nil
			}
			r.s.metrics.recovery.step.Set(float64(step) + 1)
			if err = r.do(ctx, step); err == nil && r.s.cfg.afterStep != nil {
				if died := r.s.cfg.afterStep(step); died != nil {
					return died
				}
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errOver), errors.Is(err, budgetstore.ErrFenced), errors.Is(err, budgetstore.ErrReady), errors.Is(err, pgstore.ErrEpochRaised):
			return fmt.Errorf("%w: %w", errOver, err)
		case r.lead.Check(ctx) != nil:
			return err
		}
		if now := r.s.deps.Now(); now.Sub(r.saidFailedAt) > sayInterval && ctx.Err() == nil {
			r.saidFailedAt = now
			r.s.deps.Log.Warn("a step of the recovery will be tried again", "step", recovery.Next(r.progress()).String(), "error", err)
		}
		pause(ctx, stepPause)
	}
	return ctx.Err()
}

// progress is where the recovery stands, by Postgres' clock.
func (r *recoverer) progress() recovery.Progress {
	p := r.did
	p.Now, p.LeasesEnd = r.row.Now.Add(r.s.deps.Now().Sub(r.readAt)), r.s.epochs.LeasesEnd(r.row)
	p.Barrier = !r.row.BarrierAt.IsZero()
	return p
}

// check looks whether this replica still leads, whether the recovery is still this one, and whether Redis is still the one
// that it is made in. Another loss in the middle begins another recovery.
func (r *recoverer) check(ctx context.Context) error {
	if r.did.Finished {
		return nil
	}
	ask, cancel := r.s.bounded(ctx)
	defer cancel()
	if err := r.lead.Check(ask); err != nil {
		return fmt.Errorf("%w: %w", errOver, err)
	}
	row, ok, err := r.s.rows.EpochRow(ask)
	if err != nil {
		return err
	}
	if !ok || row.Epoch != r.maker.Epoch || !row.Recovering {
		return errOver
	}
	r.row, r.readAt = row, r.s.deps.Now()
	redis, err := r.s.counters.Inspect(ask)
	if err != nil {
		return err
	}
	switch verdict, reason := r.s.epochs.Judge(row, redis); verdict {
	case recovery.Recover:
		return nil
	case recovery.Begin:
		return r.begin(ctx)
	case recovery.Raise:
		r.s.epochs.RaiseSeen(ctx, row, redis, "again, while it was recovering: "+reason, r.readAt)
		return errOver
	default:
		return fmt.Errorf("%w: %s", epoch.ErrRefused, reason)
	}
}

// begin makes this Redis the one that the counters are made in, once nothing of an earlier epoch is left there. From then on
// holders may leave their receipts there. It speaks by new connections: an old one may lead to a Redis that was left, and what
// is begun there, others find missing where they look.
func (r *recoverer) begin(ctx context.Context) error {
	counters, err := r.s.counters.Afresh()
	if err != nil {
		return err
	}
	defer func() { _ = counters.Close() }()
	redis, err := counters.Inspect(ctx)
	if err != nil {
		return err
	}
	if since := r.row.Now.Sub(r.row.RaisedAt); since < elsewhereWithin && len(r.row.RaisedIn) > 0 && !slices.Equal(redis.ReplicationIDs, r.row.RaisedIn) {
		return fmt.Errorf("%w: the loss was seen in another Redis", errOver)
	}
	if redis.Epoch != r.maker.Epoch {
		if err := counters.SetEpoch(ctx, r.maker.Epoch); err != nil {
			return err
		}
		if redis, err = counters.Inspect(ctx); err != nil {
			return err
		}
	}
	if _, err := counters.ClearOthers(ctx, r.maker, r.lead.Check); err != nil {
		return err
	}
	if _, err := r.lead.Begin(ctx, r.maker.Epoch, redis.ReplicationIDs); err != nil {
		return err
	}
	r.begun = r.s.deps.Now()
	r.s.counters.Allow(redis.ReplicationIDs)
	r.row.ReplicationIDs = redis.ReplicationIDs
	return nil
}

// do carries one step out.
func (r *recoverer) do(ctx context.Context, step recovery.Step) error {
	switch step {
	case recovery.Wait:
		return r.wait(ctx)
	case recovery.Barrier:
		write, cancel := context.WithTimeout(ctx, markWithin)
		defer cancel()
		markers := pgstore.EpochMarkers(r.s.cfg.Secret, r.maker.Epoch, usageevent.EpochBarrier, topics.UsageEvents.Partitions())
		_, err := r.s.rows.AddBarrier(write, r.maker.Epoch, markers)
		return err
	case recovery.Load:
		return r.done(&r.did.Loaded, r.load(ctx))
	case recovery.Apply:
		return r.done(&r.did.Applied, r.apply(ctx))
	case recovery.Limits:
		return r.done(&r.did.Limited, r.limits(ctx))
	case recovery.Verify:
		r.did.Verified = true // run checks before each step, so before this one and before the next
		return nil
	default:
		return r.finish(ctx)
	}
}

// wait is for the leases of the lost epoch, and then for replicas that have not shown their holds yet: for so long that one
// which does not get there holds nobody up.
func (r *recoverer) wait(ctx context.Context) error {
	if left := r.progress().LeasesEnd.Sub(r.progress().Now); left > 0 {
		r.say("leases of the lost epoch", "left", left.Round(time.Second).String())
		pause(ctx, min(checkInterval, left))
		return nil
	}
	ask, cancel := r.s.bounded(ctx)
	defer cancel()
	missing, err := r.s.rows.Unshown(ask, r.maker.Epoch)
	if err != nil {
		return err
	}
	if waited := r.s.deps.Now().Sub(r.begun); missing > 0 && waited < showWithin {
		r.say("replicas that have not shown their holds", "replicas", missing)
		pause(ctx, topicPoll)
		return nil
	}
	if missing > 0 {
		r.s.deps.Log.Warn("the recovery goes on without the holds of some replicas", "epoch", r.maker.Epoch, "replicas", missing)
	}
	r.did.Shown = true
	return nil
}

func (r *recoverer) done(step *bool, err error) error {
	*step = err == nil
	return err
}

// finish opens the epoch, by the connection that leads, and then the tenants. What a crash leaves undone of those, the
// first call of each does.
func (r *recoverer) finish(ctx context.Context) error {
	write, cancel := r.s.bounded(ctx)
	defer cancel()
	if err := r.lead.Finish(write, r.maker.Epoch, r.row.ReplicationIDs); err != nil {
		return err
	}
	r.did.Finished = true
	took := r.s.deps.Now().Sub(r.began)
	r.s.metrics.recovery.seconds.Observe(took.Seconds())
	r.s.deps.Log.Warn("the budget store is recovered", "epoch", r.maker.Epoch, "took", took.Round(time.Millisecond).String(), "tenants", len(r.loaded),
		"holds_kept", r.merged, "journal_entries", r.applied, "executions", r.executions)
	if err := r.open(ctx); err != nil && ctx.Err() == nil {
		r.s.logQuietly("open", "tenants are opened as they come", err)
	}
	return nil
}

// say tells what the recovery waits for, when that is news and then every ten seconds.
func (r *recoverer) say(what string, args ...any) {
	now := r.s.deps.Now()
	if what == r.saidFor && now.Sub(r.saidAt) < sayInterval {
		return
	}
	r.saidAt, r.saidFor = now, what
	r.s.deps.Log.Warn("the recovery waits", append([]any{"for", what, "epoch", r.maker.Epoch}, args...)...)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
