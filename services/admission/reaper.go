package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/epoch"
)

const (
	// reapTenants and reapHolds bound one look: tenants asked in one round trip, and holds taken of one tenant.
	reapTenants = 500
	reapHolds   = 100
)

// reap ends holds whose owner died, until ctx ends. Any replica may do it, all may do it at once, and each step may be
// repeated: Postgres takes the first end of a reservation, and the script ends a hold once.
func (s *Service) reap(ctx context.Context) error {
	for {
		if err := s.reapOnce(ctx); err != nil && ctx.Err() == nil {
			s.metrics.reaperErrors.Inc()
			s.trouble(admit.StoreUnavailable, fmt.Errorf("reaper: %w", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.ReapInterval):
		}
	}
}

// reapOnce looks at every tenant once. The error is the first one; other tenants are looked at all the same (I7).
func (s *Service) reapOnce(ctx context.Context) error {
	serving, err := s.epoch()
	if errors.As(err, new(recoveringError)) || errors.Is(err, epoch.ErrUnknown) {
		return nil // whose lease ended is kept, and looked at when the counters are there
	}
	if err != nil {
		return err
	}
	ids := s.catalogs.tenants.IDs()
	var failed error
	for start := 0; start < len(ids); start += reapTenants {
		var tenants []budgetstore.Tenant
		for _, id := range ids[start:min(start+reapTenants, len(ids))] {
			tenants = append(tenants, budgetstore.Tenant{ID: id, Epoch: serving})
		}
		look, cancel := s.bounded(ctx)
		due, err := s.counters.WithDue(look, tenants, s.deps.Now())
		cancel()
		if err != nil {
			return err
		}
		for _, t := range due {
			if err := s.reapTenant(ctx, t); err != nil && failed == nil {
				failed = fmt.Errorf("tenant %s: %w", t.ID, err)
			}
		}
	}
	return failed
}

func (s *Service) reapTenant(ctx context.Context, t budgetstore.Tenant) error {
	look, cancel := s.bounded(ctx)
	defer cancel()
	holds, err := s.counters.Due(look, t, reapHolds)
	if errors.Is(err, budgetstore.ErrLost) {
		return nil // nothing is held; reserve says what that means
	}
	if err != nil {
		return err
	}
	var failed error
	for _, h := range holds {
		err := s.expire(ctx, t, h)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("reservation %s: %w", h.ID, err))
		}
		if isOutage(err) { // the others would meet it too
			break
		}
	}
	return failed
}

// expire ends one hold: the row and the UNSETTLED event in one transaction, then the script.
func (s *Service) expire(ctx context.Context, t budgetstore.Tenant, h budgetstore.Hold) error {
	subj, err := subjectOf(t, h)
	if err != nil {
		return err
	}
	s.grow(subj)
	stored, done, err := s.endUnsettled(ctx, subj, pgstore.OwnDirect)
	raised := errors.Is(err, pgstore.ErrEpochRaised)
	if raised { // no script can reach the hold any more: the journal adds the amount
		stored, done, err = s.endUnsettled(ctx, subj, pgstore.OwnJournal)
	}
	if err != nil {
		return err
	}
	s.forget(subj)
	if done {
		s.metrics.expired.Inc()
	}
	if raised {
		return nil
	}
	return s.follow(ctx, subj, stored)
}

func (s *Service) endUnsettled(ctx context.Context, subj *subject, mode pgstore.OwnMode) (pgstore.Row, bool, error) {
	row := subj.row(pgstore.Expired)
	row.OwnMode, row.OwnNanos, row.EventID = mode, subj.held.Nanos, subj.eventID("unsettled")
	event := signed(s.cfg.Secret, subj.unsettledEvent(string(mode), s.deps.Now()))
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.rows.End(ctx, row, &event)
}

// follow makes Redis do what Postgres has decided about a hold: the row was first, or it is this expiry's own.
func (s *Service) follow(ctx context.Context, subj *subject, row pgstore.Row) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var err error
	switch {
	case !row.ReservedAt.Equal(subj.reservedAt): // see freeHold
		_, err = s.counters.Release(ctx, subj.ref())
	case row.OwnMode == pgstore.OwnJournal:
		// Ended while Redis was away: the journal reader adds the amount and drops the hold in one step. Dropping it here
		// would leave the amount uncounted until then, and keeping it would count it twice.
	case row.Outcome == pgstore.Expired:
		_, err = s.counters.Expire(ctx, subj.ref())
	case row.Outcome == pgstore.Released, row.Outcome == pgstore.External:
		_, err = s.counters.Release(ctx, subj.ref())
	case row.OwnMode == pgstore.OwnDirect:
		if subj.held.Nanos > row.HeldNanos {
			s.heldMore(ctx, row, subj.held.Nanos)
		}
		// The row does not know the tokens; those held are the most that it can have been.
		_, err = s.counters.Settle(ctx, subj.ref(), admit.Estimate{Nanos: row.OwnNanos, InputTokens: subj.held.InputTokens, OutputTokens: subj.held.OutputTokens})
	}
	return err
}
