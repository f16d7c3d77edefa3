package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// settle takes what a call has used: POST /v1/reservations/{id}/settle. Postgres first, then Redis; once Postgres has
// it, the answer is 200 whatever Redis does.
func (s *Service) settle(ctx context.Context, c caller, id string, req settleRequest) (answer, error) {
	if p := first(checkShape("id", id), req.check(), ofTenant(c.tenant, req.Traceparent, req.Tracestate)); p != nil {
		return answer{}, p
	}

	body, err := s.settleFound(ctx, &c, id, &req, s.recallOr)
	if errors.Is(err, errRecalled) {
		body, err = s.settleFound(ctx, &c, id, &req, s.find)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: body}, nil
}

// finder looks a reservation up: find, or recallOr.
type finder func(ctx context.Context, tenant, id, receipt string) (subject, *pgstore.Row, error)

// settleFound settles what is found, and gives the body to answer.
func (s *Service) settleFound(ctx context.Context, c *caller, id string, req *settleRequest, find finder) ([]byte, error) {
	// load
	e := ending{req: *req}
	var stored *pgstore.Row
	var err error
	if e.subj, stored, err = find(ctx, c.tenant, id, string(req.Receipt)); err != nil {
		return nil, err
	}
	s.metrics.found(&e.subj, stored)
	s.grow(&e.subj)
	contract := s.catalogs.tenants.InForce(c.tenant, e.subj.reservedAt)
	if contract == nil {
		contract = c.contract
	}

	// decide
	var p *Problem
	if e.charge, p = chargeFor(&e.req, &e.subj, s.catalogs.prices.Book(), contract); p != nil {
		return nil, p
	}
	if e.subj.recalled && e.charge.asksTheHold() {
		return nil, errRecalled
	}
	e.fingerprint, e.now = e.charge.fingerprint(&e.req, &e.subj), s.deps.Now()

	// save
	body, err := s.saveSettle(ctx, &e, stored)
	if err == nil {
		s.forget(&e.subj)
	}

	// emit: the outbox row is committed with the settle.
	return body, err
}

func (req *settleRequest) check() *Problem {
	switch req.Status {
	case "", statusSuccess, statusFailed, statusPartial:
	default:
		return invalid("status", "status is SUCCESS, FAILED or PARTIAL.")
	}
	if req.Model != "" {
		if p := checkName("model", req.Model); p != nil {
			return p
		}
	}
	if req.CacheHit != "" && (given(req.Usage) || len(req.Meters) > 0) {
		return invalid("cache_hit", "A cache hit comes without usage and meters: what a cache answers costs nothing.")
	}
	return unfit(usageevent.Check(usageevent.Data{API: req.API, ServiceTier: req.ServiceTier, ResponseID: req.ResponseID, CacheHit: req.CacheHit,
		Status: req.Status, Traceparent: req.Traceparent, Tracestate: req.Tracestate}))
}

// ofTenant refuses a trace that claims another tenant: the attributor would put its event aside.
func ofTenant(tenant, traceparent, tracestate string) *Problem {
	if !lineage.Read(traceparent, tracestate).Contradicts(tenant) {
		return nil
	}
	p := problem(admit.ForbiddenTenant, "tracestate claims another tenant than the credential's.")
	p.Field = "tracestate"
	return p
}

// saveSettle records the settle, or finds out what it meets, and gives the body to answer. known is a row that was read
// already.
func (s *Service) saveSettle(ctx context.Context, e *ending, known *pgstore.Row) ([]byte, error) {
	if known != nil {
		return s.meet(ctx, e, *known)
	}
	mode := pgstore.OwnJournal
	if e.subj.direct {
		mode = pgstore.OwnDirect
	}
	row, stored, done, err := s.end(ctx, e, mode)
	if errors.Is(err, pgstore.ErrEpochRaised) { // no script can reach the hold any more: the journal adds the amount
		mode = pgstore.OwnJournal
		row, stored, done, err = s.end(ctx, e, mode)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !done && e.subj.recalled: // it had ended, elsewhere: what it is by now, Redis and the row say
		s.forget(&e.subj)
		return nil, errRecalled
	case !done:
		return s.meet(ctx, e, stored)
	}
	s.metrics.settled(string(mode))
	if mode != pgstore.OwnDirect {
		return row.Answer, nil
	}
	switch was, err := s.applySettle(ctx, &e.subj, e.charge.own); {
	case err == nil && !was.Applied:
		s.metrics.holdGone.Inc()
	case was.Held.Nanos > e.subj.held.Nanos: // another replica has grown it: it was recalled
		return s.heldMore(ctx, row, was.Held.Nanos), nil
	}
	return row.Answer, nil
}

// end records a settle as the first end: row, or the one that was first, and false.
func (s *Service) end(ctx context.Context, e *ending, mode pgstore.OwnMode) (row, stored pgstore.Row, done bool, err error) {
	row, event, p := e.first(s.cfg.Secret, mode)
	if p != nil {
		return row, row, false, p
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	stored, done, err = s.rows.End(ctx, row, &event)
	return row, stored, done, err
}

// applySettle replaces the hold by the actual. Postgres has it already: what Redis misses now, the journal reader does.
// A hold that is not there was settled by somebody else who has read the row, or was deleted by hand: nothing is added in
// its place, because that would count twice where it was the former.
func (s *Service) applySettle(ctx context.Context, subj *subject, own admit.Estimate) (budgetstore.Ending, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	was, err := s.counters.Settle(ctx, subj.ref(), own)
	if err != nil {
		s.metrics.missed.Inc()
		s.trouble(admit.StoreUnavailable, fmt.Errorf("settle script of a committed settle: %w", err))
	}
	if isLoss(err) { // nobody may have asked Redis about this tenant before
		s.lost(subj.ref().Tenant)
	}
	return was, err
}

func (s *subject) ref() budgetstore.Ref {
	return budgetstore.Ref{Tenant: budgetstore.Tenant{ID: s.tenant, Epoch: s.epoch}, ID: s.id, ReservedAt: s.reservedAt, Root: s.call.Root}
}

// meet decides what a settle means for a reservation that has ended already (docs/reference/reservation-life.md):
// the same again is answered again, a figure after an expiry, a release or an estimate is taken once, a settle after
// usage from elsewhere is booked and the attributor cancels the surplus, and everything else is a conflict.
func (s *Service) meet(ctx context.Context, e *ending, row pgstore.Row) ([]byte, error) {
	if !row.ReservedAt.Equal(e.subj.reservedAt) {
		s.freeHold(ctx, &e.subj)
		return nil, conflict(row, usedAgain)
	}
	switch {
	case row.Outcome == pgstore.Settled && bytes.Equal(row.Fingerprint, e.fingerprint):
		if e.subj.direct && row.OwnMode == pgstore.OwnDirect && row.Epoch == e.subj.epoch { // the first one missed Redis
			was, _ := s.applySettle(ctx, &e.subj, admit.Estimate{Nanos: row.OwnNanos, InputTokens: e.charge.own.InputTokens, OutputTokens: e.charge.own.OutputTokens})
			if was.Held.Nanos > row.HeldNanos {
				return s.heldMore(ctx, row, was.Held.Nanos), nil
			}
		}
		return row.Answer, nil
	case row.Late != nil && bytes.Equal(row.Late.Fingerprint, e.fingerprint):
		return row.Late.Answer, nil
	case row.Late != nil:
		return nil, conflict(row, howEnded(row)+" The one late figure was taken with other content.")
	case row.Outcome == pgstore.External:
		return s.settleExternal(ctx, e)
	case row.Outcome == pgstore.Expired, row.Outcome == pgstore.Released, row.Estimated && !e.charge.estimated:
		return s.settleLate(ctx, e, row)
	default:
		return nil, conflict(row, "The reservation was settled with other content.")
	}
}

// usedAgain is for who comes too late: the row is of a reservation that was made later.
const usedAgain = "This reservation id was used again, and that reservation has ended; of this one nothing is held any more."

// freeHold gives back a hold that can never be settled, as a later reservation of its id has ended: by another clock of Redis', or
// it would not be held (I11).
func (s *Service) freeHold(ctx context.Context, subj *subject) {
	if !subj.direct {
		return
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.counters.Release(ctx, subj.ref()); err != nil {
		s.trouble(admit.StoreUnavailable, fmt.Errorf("free a hold without an id of its own: %w", err))
	}
}

// conflict says how a reservation stands that has ended otherwise; a late figure settles it.
func conflict(row pgstore.Row, detail string) *Problem {
	p := problem(admit.ReservationConflict, detail)
	p.State = stateOf(row)
	return p
}

// stateOf is the state of a reservation that has ended.
func stateOf(row pgstore.Row) string {
	if row.Late != nil {
		return string(pgstore.Settled)
	}
	return string(row.Outcome)
}

// howEnded says how, for whoever wants something else of the reservation.
func howEnded(row pgstore.Row) string {
	switch {
	case row.Late != nil:
		return "The reservation was " + string(row.Outcome) + ", and its usage was settled late."
	case row.Outcome == pgstore.External:
		return "The reservation ended by usage that came from elsewhere."
	default:
		return "The reservation was " + string(row.Outcome) + "."
	}
}

// settleExternal books a settle whose usage came from elsewhere first. The hold is gone, so the journal adds the amount.
func (s *Service) settleExternal(ctx context.Context, e *ending) ([]byte, error) {
	row, event, p := e.first(s.cfg.Secret, pgstore.OwnJournal)
	if p != nil {
		return nil, p
	}
	write, cancel := s.bounded(ctx)
	defer cancel()
	stored, done, err := s.rows.SettleExternal(write, row, event)
	switch {
	case err != nil:
		return nil, err
	case !done && stored.Outcome == pgstore.External:
		return nil, conflict(stored, howEnded(stored))
	case !done:
		return s.meet(ctx, e, stored)
	}
	s.metrics.settled("external")
	return row.Answer, nil
}

// settleLate books the one late figure. It counts as external: the hold is gone and its estimate, if it stayed, is
// reversed by the attributor.
func (s *Service) settleLate(ctx context.Context, e *ending, row pgstore.Row) ([]byte, error) {
	if e.charge.estimated { // a late figure without usage: the estimate is all there is to say
		e.charge.meters = e.subj.call.Meters
	}
	id := e.subj.eventID("late")
	answer := e.answer(id, true)
	event, p := readable(s.cfg.Secret, e.charge.event(&e.req, &e.subj, id, usageevent.OutcomeLate, "", 0, e.now))
	if p != nil {
		return nil, p
	}
	write, cancel := s.bounded(ctx)
	defer cancel()
	stored, done, err := s.rows.AddLate(write, row, pgstore.Late{EventID: id, Fingerprint: e.fingerprint, Answer: answer}, event)
	switch {
	case err != nil:
		return nil, err
	case !done && stored.Late == nil:
		return nil, conflict(stored, "The reservation takes no late figure.")
	case !done:
		return s.meet(ctx, e, stored)
	}
	s.metrics.settled("late")
	return answer, nil
}
