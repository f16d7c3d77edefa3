package admission

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// What is written where a reservation ends: the row, the event beside it in the outbox, the answer.

// ending is a settle about to be recorded.
type ending struct {
	req         settleRequest
	subj        subject
	charge      charge
	fingerprint []byte
	now         time.Time
}

// first is the row and the event of a settle that comes first.
func (e *ending) first(secret identity.Secret, mode pgstore.OwnMode) (pgstore.Row, outbox.Event, *Problem) {
	id, outcome := e.subj.eventID("settle"), usageevent.OutcomeSettled
	if e.charge.estimated {
		outcome = usageevent.OutcomeEstimated
	}
	row := e.subj.row(pgstore.Settled)
	row.Estimated, row.Fingerprint, row.OwnMode, row.OwnNanos = e.charge.estimated, e.fingerprint, mode, e.charge.own.Nanos
	row.EventID, row.Answer = id, e.answer(id, false)
	event, p := readable(secret, e.charge.event(&e.req, &e.subj, id, outcome, string(mode), e.charge.own.Nanos, e.now))
	return row, event, p
}

// row is the record of the subject's end, without what depends on how it ended.
func (s *subject) row(outcome pgstore.Outcome) pgstore.Row {
	return pgstore.Row{Tenant: s.tenant, ReservationID: s.id, ReservedAt: s.reservedAt, Outcome: outcome, HeldNanos: s.held.Nanos,
		Epoch: s.epoch, Call: s.rawCall}
}

func (e *ending) answer(eventID string, late bool) []byte {
	body := settleAnswer{
		ReservationID: e.subj.id, State: string(pgstore.Settled), Status: e.charge.status, CostUSD: e.charge.raw,
		BilledUSD: e.charge.billed, ReservedUSD: e.subj.held.Nanos.USD(), OverageUSD: e.charge.overage, Estimated: e.charge.estimated, Late: late,
		Flags: append([]string{}, e.charge.flags...), EventID: eventID,
	}
	return append(body.appendJSON(make([]byte, 0, 512)), '\n')
}

// eventID follows from the reservation alone, so that whoever writes an end again writes the same event.
func (s *subject) eventID(kind string) string {
	var room [usageevent.MaxOwnID]byte
	b := append(append(append(append(room[:0], kind...), ':'), s.id...), ':')
	return string(strconv.AppendInt(b, s.reservedAt.UnixNano(), 10))
}

// event is the usage event of a settle. kind and outcome say which of the transitions it is; own is what admission adds
// to its own counters by it, and mode who does.
func (c *charge) event(req *settleRequest, s *subject, id, outcome, mode string, own money.Nano, now time.Time) usageevent.Event {
	model := cmp.Or(c.model, req.Model, s.call.Model)
	ev := usageevent.Event{
		ID: id, Source: usageevent.SourceAdmission, Type: usageevent.TypeUsage, Subject: s.tenant, Time: now.UTC(),
		Data: usageevent.Data{
			Provider: s.call.Provider, Model: model, API: req.API, Usage: c.usage, Meters: c.meters, CacheHit: c.cacheHit,
			ServiceTier: cmp.Or(c.tier, req.ServiceTier), Status: c.status, ErrorCode: usageevent.Clean(req.ErrorCode, usageevent.MaxText),
			ResponseID: cmp.Or(req.ResponseID, c.responseID), Traceparent: req.Traceparent, Tracestate: req.Tracestate,
		},
	}
	if c.whole.Bytes() != nil {
		ev.Data.SetUsage(c.whole)
	}
	s.attribute(&ev)
	ev.Data.Reservation.Outcome, ev.Data.Reservation.OwnMode, ev.Data.Reservation.OwnNanos = outcome, mode, own
	if c.estimated && !s.call.Dearest {
		estimate := c.estimate // of its own, so that c is not moved to the heap by each settle
		ev.Data.Reservation.EstimateUSD = &estimate
	}
	if slices.Contains(c.flags, usageevent.FlagDearerModel) { // a cache hit is a member of its own
		ev.Data.Reservation.Flags = []string{usageevent.FlagDearerModel}
	}
	return ev
}

// unsettledEvent is the usage event of a hold whose owner never settled: charged at what it held. mode says who adds that
// to admission's own counters.
func (s *subject) unsettledEvent(mode string, now time.Time) usageevent.Event {
	ev := usageevent.Event{
		ID: s.eventID("unsettled"), Source: usageevent.SourceAdmission, Type: usageevent.TypeUnsettled, Subject: s.tenant, Time: now.UTC(),
		Data: usageevent.Data{Provider: s.call.Provider, Model: s.call.Model},
	}
	s.attribute(&ev)
	r := ev.Data.Reservation
	r.Outcome, r.OwnMode, r.OwnNanos = usageevent.OutcomeUnsettled, mode, s.held.Nanos
	return ev
}

// attribute fills in who pays and what was reserved.
func (s *subject) attribute(ev *usageevent.Event) {
	d := &ev.Data
	d.RootExecutionID, d.ParentAgentID, d.AgentID, d.CostCenter = s.call.Root, s.call.ParentAgent, s.call.Agent, s.call.CostCenter
	d.ReservationID, d.APIKeyID = s.id, s.call.APIKey
	var usd *money.USD // none where there was no price: the attributor looks for one
	if !s.call.Dearest {
		estimate := s.call.EstimateUSD
		usd = &estimate
	}
	d.Reservation = &usageevent.Reservation{ReservedAt: s.reservedAt.UTC(), HeldNanos: s.held.Nanos, Epoch: s.epoch, Day: s.day, EstimateUSD: usd,
		Estimate: s.call.Meters, PriceVersion: s.call.PriceVersion, Depth: int32(s.call.Depth), Scopes: s.call.countedIn(), Branches: s.call.branchIDs()}
}

// readable is signed for an event of a request that is answered 200 once it is committed: one that the attributor cannot
// decode must not be. Validation has seen to that already; this is for what it may have missed.
func readable(secret identity.Secret, ev usageevent.Event) (outbox.Event, *Problem) {
	value, err := usageevent.EncodeReadable(ev)
	if err != nil {
		return outbox.Event{}, unfit(err)
	}
	return sealed(secret, ev, value), nil
}

// signed is the outbox row of an event.
func signed(secret identity.Secret, ev usageevent.Event) outbox.Event {
	return sealed(secret, ev, usageevent.Encode(ev))
}

// sealed signs the exact bytes, which is why the attributor believes the event's reservation block.
func sealed(secret identity.Secret, ev usageevent.Event, value []byte) outbox.Event {
	return outbox.Event{ID: ev.ID, AggregateType: "tenant", AggregateID: ev.Subject, Type: ev.Type, Payload: value,
		Headers: map[string]string{"content-type": usageevent.ContentType, identity.SignatureHeader: identity.Sign(secret, value)}}
}
