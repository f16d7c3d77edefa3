package admission

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/pgstore"
)

// find looks a reservation up: its hold, else the row of its end, else its receipt. A row that was read comes along, unless
// it is of an earlier reservation of the same id, which says nothing of this one (ADR 0017).
// With a receipt it works while Redis is away, or has forgotten the hold.
func (s *Service) find(ctx context.Context, tenant, id, receipt string) (subject, *pgstore.Row, error) {
	byReceipt, p := s.fromReceipt(tenant, id, receipt)
	if p != nil {
		return subject{}, nil, p
	}
	return s.lookUp(ctx, tenant, id, byReceipt)
}

func (s *Service) lookUp(ctx context.Context, tenant, id string, byReceipt *subject) (subject, *pgstore.Row, error) {
	byHold, redisErr := s.fromHold(ctx, tenant, id)
	if redisErr == nil && (byReceipt == nil || byReceipt.reservedAt.Equal(byHold.reservedAt)) {
		return *byHold, nil, nil
	}
	read, cancel := s.bounded(ctx)
	defer cancel()
	row, ended, err := s.rows.Get(read, tenant, id)
	switch {
	case err != nil:
		return subject{}, nil, err
	case byReceipt != nil && ended && !row.ReservedAt.Before(byReceipt.reservedAt):
		return *byReceipt, &row, nil
	case byReceipt != nil:
		return *byReceipt, nil, nil
	case ended:
		byRow, err := fromRow(row)
		return byRow, &row, err
	case errors.Is(redisErr, budgetstore.ErrNoHold):
		return subject{}, nil, problem(admit.ReservationNotFound, "No such reservation is open or remembered; a receipt would prove it.")
	default:
		return subject{}, nil, redisErr
	}
}

// fromHold finds an open or expiring hold. Lost counters hold nothing, but whether this reservation was among them
// nobody knows: that error stays, and is a 503.
func (s *Service) fromHold(ctx context.Context, tenant, id string) (*subject, error) {
	t, err := s.of(tenant)
	if err != nil {
		return nil, err
	}
	h, err := s.hold(ctx, t, id)
	if err != nil {
		return nil, err
	}
	return subjectOf(t, h)
}

// hold reads a hold. Where the tenant has no counters because nothing was ever reserved, no hold exists either: that is
// budgetstore.ErrNoHold, and nothing is made for the asking.
func (s *Service) hold(ctx context.Context, t budgetstore.Tenant, id string) (budgetstore.Hold, error) {
	ask, cancel := s.bounded(ctx)
	defer cancel()
	h, err := s.counters.Hold(ask, t, id)
	if isLoss(err) {
		s.lost(t)
	}
	if !errors.Is(err, budgetstore.ErrLost) {
		return h, err
	}
	read, done := s.bounded(ctx)
	defer done()
	admitted, readErr := s.rows.HasReserved(read, t.ID)
	if readErr == nil && !admitted {
		return h, budgetstore.ErrNoHold
	}
	return h, errors.Join(err, readErr)
}

func subjectOf(t budgetstore.Tenant, h budgetstore.Hold) (*subject, error) {
	c, kept, err := grantedCall(h.Context, h.Answer)
	if err != nil {
		return nil, problem(codeInternal, err.Error())
	}
	if held, changed := c.heldIn(h.Scopes); changed {
		c, kept = held, held.encode()
	}
	return &subject{tenant: t.ID, id: h.ID, reservedAt: h.Answer.ReservedAt, epoch: t.Epoch, held: h.Held, call: c, rawCall: kept,
		day: h.Answer.Day, month: h.Answer.Month, fingerprint: h.Fingerprint, direct: true}, nil
}

func (s *Service) fromReceipt(tenant, id, text string) (*subject, *Problem) {
	if text == "" {
		return nil, nil
	}
	r, err := identity.VerifyReceipt(s.cfg.Secret, text)
	if err != nil || r.Tenant != tenant || r.ReservationID != id {
		return nil, invalid("receipt", "The receipt is not one of this reservation.")
	}
	c, err := decodeCall(r.Call)
	if err != nil {
		return nil, invalid("receipt", "The receipt does not say what was reserved.")
	}
	return &subject{tenant: tenant, id: id, reservedAt: time.Unix(0, r.ReservedAt).UTC(), epoch: r.Epoch,
		held: admit.Estimate{Nanos: money.Nano(r.HeldNanos), InputTokens: r.InputTokens, OutputTokens: r.OutputTokens}, call: c, rawCall: r.Call,
		day: r.Day, month: r.Month, fingerprint: r.Fingerprint}, nil
}

func fromRow(row pgstore.Row) (subject, error) {
	c, err := decodeCall(row.Call)
	if err != nil {
		return subject{}, problem(codeInternal, err.Error())
	}
	return subject{tenant: row.Tenant, id: row.ReservationID, reservedAt: row.ReservedAt, epoch: row.Epoch,
		held: admit.Estimate{Nanos: row.HeldNanos}, call: c, rawCall: row.Call}, nil
}
