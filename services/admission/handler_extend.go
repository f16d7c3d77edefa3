package admission

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// extend is the heartbeat of a long call: POST /v1/reservations/{id}/extend. It moves the lease, grows the hold to what
// the call has used so far, and may tell the holder to stop.
func (s *Service) extend(ctx context.Context, c caller, id string, req extendRequest) (answer, error) {
	if p := first(checkShape("id", id), req.check()); p != nil {
		return answer{}, p
	}

	out, err := s.extendFound(ctx, c, id, req, s.recallOr)
	if errors.Is(err, errRecalled) {
		out, err = s.extendFound(ctx, c, id, req, s.find)
	}
	return out, err
}

// extendFound extends what is found.
func (s *Service) extendFound(ctx context.Context, c caller, id string, req extendRequest, find finder) (answer, error) {
	// load
	epoch, recovering := s.epochs.Recovering(s.deps.Now()) // before any row: see keepHold
	subj, row, err := find(ctx, c.tenant, id, string(req.Receipt))
	if p := s.killed(c.tenant, subj.call.Provider, subj.call.Model); p != nil && (err == nil && row == nil || isOutage(err)) {
		if subj.recalled { // it may have ended, and then it is not open
			return answer{}, errRecalled
		}
		return answer{status: http.StatusOK, body: extendAnswer{ReservationID: id, State: stateOpen, Stop: true, Reason: string(p.Code), Detail: p.Detail}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	if row != nil {
		return answer{}, conflict(*row, howEnded(*row))
	}
	if recovering {
		return s.keepHold(ctx, c, epoch, req, &subj)
	}
	t, err := s.of(c.tenant)
	if err != nil {
		return answer{}, soon(err, req.Receipt)
	}
	request, p := s.growth(c, req, &subj)
	if p != nil {
		return answer{}, p
	}
	request.Tenant = t // a receipt may be of an earlier epoch

	// decide
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	reply, err := s.counters.Extend(bounded, request)
	if isLoss(err) {
		s.lost(t)
	}
	if err != nil {
		return answer{}, err
	}

	// emit
	if reply.Found && reply.Stop {
		s.decisions.refused(c, id, subj.call, reply.Refusal, s.deps.Now())
	}
	return s.extended(ctx, &subj, reply)
}

// soon is for a holder who has a receipt while the store recovers: it is taken as soon as the recovery has begun, a second
// after the loss, and not only when it is over, which is what others are told to wait for.
func soon(err error, receipt token) error {
	if making, ok := errors.AsType[recoveringError](err); ok && receipt != "" {
		making.retry = 0
		return making
	}
	return err
}

func (req extendRequest) check() *Problem {
	if req.LeaseSeconds < 0 || req.LeaseSeconds > 86400 {
		return invalid("lease_seconds", "lease_seconds is not from 1 to 86400; 0, or none, is the default.")
	}
	if req.OutputTokensSoFar < 0 || req.OutputTokensSoFar > admit.Unlimited {
		return invalid("output_tokens_so_far", "output_tokens_so_far is not a number of tokens.")
	}
	return nil
}

// growth is what must be held from now on.
func (s *Service) growth(c caller, req extendRequest, subj *subject) (budgetstore.ExtendRequest, *Problem) {
	loc, err := s.zones.Of(c.contract)
	if err != nil {
		return budgetstore.ExtendRequest{}, problem(codeInternal, "The tenant's time zone is not known here.")
	}
	out := budgetstore.ExtendRequest{Ref: subj.ref(), Lease: s.lease(req.LeaseSeconds), Limits: limitsOf(c.contract), Scopes: subj.call.ceilings(c.contract),
		Branches: subj.call.branches(), Calendar: admit.CalendarAt(s.deps.Now(), loc)}
	if req.OutputTokensSoFar == 0 {
		return out, nil
	}
	if out.AtLeast, err = usedSoFar(s.catalogs.prices.Book(), c.contract, subj, req.OutputTokensSoFar); err != nil {
		return out, priceProblem("output_tokens_so_far", err)
	}
	return out, nil
}

// usedSoFar is what a call costs that has its estimated prompt behind it and has written output tokens so far.
func usedSoFar(book *pricing.Book, contract *tenant.Contract, s *subject, output int64) (admit.Estimate, error) {
	usd, err := costOf(book, s.call, s.reservedAt, pricing.Estimate{MaxOutputTokens: output, Meters: inputsOf(s.call)})
	if err != nil {
		return admit.Estimate{}, err
	}
	nanos, err := money.CeilNano(counted(contract, usd))
	return admit.Estimate{Nanos: nanos, OutputTokens: output}, err
}

// inputsOf are the meters of an estimate but for the output that is being written.
func inputsOf(c call) usage.Meters {
	m := usage.Meters{}
	for name, q := range c.Meters {
		if name := usage.Meter(name); name != usage.Output {
			m[name] = q
		}
	}
	return m
}

func (s *Service) extended(ctx context.Context, subj *subject, reply budgetstore.ExtendReply) (answer, error) {
	out := extendAnswer{ReservationID: subj.id, State: stateOpen, Stop: reply.Stop}
	switch {
	case !reply.Found && subj.recalled:
		return answer{}, errRecalled
	case !reply.Found:
		return answer{}, s.notOpen(ctx, subj)
	case reply.Stop:
		out.Reason, out.Detail = string(reply.Refusal.Code), detailOf(reply.Refusal)
	default:
		s.rememberExtended(subj, reply.Held, reply.LeaseUntil)
		held := amountsOf(reply.Held)
		out.Reserved, out.ExpiresAt = &held, clock(reply.LeaseUntil)
	}
	return answer{status: http.StatusOK, body: out}, nil
}

// notOpen says why a reservation cannot be extended: it has ended, its lease ran out, or Redis has forgotten it.
func (s *Service) notOpen(ctx context.Context, subj *subject) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	row, ended, err := s.rows.Get(ctx, subj.tenant, subj.id)
	switch {
	case err != nil:
		return err
	case ended && !row.ReservedAt.Before(subj.reservedAt):
		return conflict(row, howEnded(row))
	case subj.direct:
		p := problem(admit.ReservationConflict, "The lease ran out; the call may still be settled.")
		p.State = stateExpiring
		return p
	default:
		return problem(admit.ReservationNotFound, "No such hold is open; the call may still be settled with its receipt.")
	}
}
