package admission

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/pgstore"
)

// pendingPerCall is how many pending holds a tenant may have for each concurrent call: leases that ran out are among them.
const pendingPerCall = 2

// keepHold is an extension by receipt while the counters are made anew: the hold is kept until they are there, and then an
// open one. Whoever read row after it had read the epoch knows that nothing ended the reservation before the markers.
func (s *Service) keepHold(ctx context.Context, c caller, epoch pgstore.RedisEpoch, req extendRequest, subj *subject) (answer, error) {
	if req.Receipt == "" || subj.epoch >= epoch.Epoch {
		return answer{}, recoveringError{epoch: epoch.Epoch}
	}
	grown, p := s.growth(c, req, subj)
	if p != nil {
		return answer{}, p
	}
	held := admit.Estimate{Nanos: max(subj.held.Nanos, grown.AtLeast.Nanos), InputTokens: max(subj.held.InputTokens, grown.AtLeast.InputTokens),
		OutputTokens: max(subj.held.OutputTokens, grown.AtLeast.OutputTokens)}
	request := subj.pend(epoch.Epoch, held, grown.Lease, grown.Limits)
	pend, cancel := s.bounded(ctx)
	defer cancel()
	reply, err := s.counters.Pend(pend, request)
	switch {
	case errors.Is(err, budgetstore.ErrTooLate): // the counters are there: a hold that was kept is an open one by now
		grown.Ref = request.Ref
		if reply, err = s.counters.Extend(pend, grown); err != nil {
			return answer{}, err
		}
		return s.extended(ctx, subj, reply)
	case errors.Is(err, budgetstore.ErrConflict):
		return answer{}, problem(admit.ReservationConflict, "This reservation id is held with other content.")
	case errors.Is(err, budgetstore.ErrPending):
		return answer{}, recoveringError{epoch: epoch.Epoch}
	case err != nil:
		return answer{}, err
	}
	s.metrics.recovery.pending.Inc()
	s.rememberExtended(subj, reply.Held, reply.LeaseUntil)
	kept := amountsOf(reply.Held)
	return answer{status: http.StatusOK, body: extendAnswer{ReservationID: subj.id, State: stateOpen, Reserved: &kept, ExpiresAt: clock(reply.LeaseUntil)}}, nil
}

// pend asks to keep the subject's hold for the epoch that is being made.
func (s *subject) pend(epoch int64, held admit.Estimate, lease time.Duration, limits admit.Limits) budgetstore.PendRequest {
	return budgetstore.PendRequest{
		Ref: s.refIn(epoch), Day: s.day, Month: s.month, Held: held, Lease: lease, Fingerprint: s.fingerprint,
		Execution: admit.Execution{Root: s.call.Root, Depth: int64(s.call.Depth), Branches: s.call.branches()}, Limits: limits, Context: s.rawCall,
		Scopes: s.call.scopesHeld(), Most: pendingPerCall * limits.Concurrency,
	}
}

// forgetHold is a release by receipt while the counters are made anew. What Redis misses, the reaper repeats.
func (s *Service) forgetHold(ctx context.Context, epoch pgstore.RedisEpoch, subj *subject) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.counters.Unpend(ctx, subj.refIn(epoch.Epoch)); err != nil {
		s.metrics.missed.Inc()
		s.trouble(admit.StoreUnavailable, err)
	}
}

// refIn names the hold in another epoch than its own.
func (s *subject) refIn(epoch int64) budgetstore.Ref {
	return budgetstore.Ref{Tenant: budgetstore.Tenant{ID: s.tenant, Epoch: epoch}, ID: s.id, ReservedAt: s.reservedAt}
}
