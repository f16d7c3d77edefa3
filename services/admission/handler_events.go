package admission

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
	"github.com/weir-project/weir/pkg/usageevent/consumed"
)

// limitInFlight names the bound of the ingest in its 429.
const limitInFlight admit.Limit = "events_in_flight"

// tokenSkew is how far ahead of this clock an event's own time may be; later ones count as that moment, here and, by the
// record's timestamp, in the attributor.
const tokenSkew = 5 * time.Minute

// ingestHTTP takes events by CloudEvents' HTTP binding. Room for the body is taken before it is read.
func (s *Service) ingestHTTP(ctx context.Context, c caller, w http.ResponseWriter, r *http.Request) (answer, error) {
	if p := tooLong(r, maxEventsBody); p != nil { // which no retry would change, as it may that there is no room
		return answer{}, p
	}
	room := r.ContentLength
	if room < 0 {
		room = maxEventsBody
	}
	return s.ingest(ctx, c, room, func() ([]usageevent.Event, *Problem) {
		body, p := readBody(w, r, maxEventsBody, nil)
		if p != nil {
			return nil, p
		}
		return readEvents(r.Header, body)
	})
}

// ingest takes usage events and answers 204 once Kafka has them: POST /v1/events and /api/v1/events. All of a batch are
// valid or none is taken. After any other answer the same events may be sent again: each id counts once. room is how many
// bytes they take at most, and read decodes them.
func (s *Service) ingest(ctx context.Context, c caller, room int64, read func() ([]usageevent.Event, *Problem)) (answer, error) {
	if !s.waiting.take(c.tenant, room) {
		p := problem(admit.RateLimited, "Too many events wait for Kafka; send them again later.")
		p.Limit, p.RetryAfterMS = limitInFlight, jitter(time.Second).Milliseconds()
		return answer{}, p
	}
	defer s.waiting.give(c.tenant, room)

	// decode
	events, p := read()
	if p != nil {
		return answer{}, p
	}

	// load, decide
	records := make([]bus.Record, 0, len(events))
	for i, ev := range events {
		record, p := s.accept(c, ev)
		if p != nil {
			if len(events) > 1 {
				p = ofEvent(i, p)
			}
			return answer{}, p
		}
		records = append(records, record)
	}

	// save
	ctx, cancel := context.WithTimeout(ctx, ingestDeadlines*s.cfg.Deadline)
	defer cancel()
	if err := s.events.Produce(ctx, records...); err != nil {
		s.metrics.events.WithLabelValues("unacknowledged").Add(float64(len(records)))
		return answer{}, errors.Join(problem(admit.StoreUnavailable, "Kafka did not acknowledge in time; send the same events again, each id counts once."), err)
	}
	s.metrics.events.WithLabelValues("taken").Add(float64(len(records)))
	return answer{status: http.StatusNoContent}, nil
}

// accept makes the record of one event. Its tenant is the caller's, whatever the event says (I8); the signature tells the
// attributor so. What only Weir itself may say is refused, or left out: a signed event is believed.
func (s *Service) accept(c caller, ev usageevent.Event) (bus.Record, *Problem) {
	switch {
	case ev.Type != usageevent.TypeUsage:
		return bus.Record{}, invalid("", "type is not "+usageevent.TypeUsage+".")
	case ev.Source == usageevent.SourceAdmission || ev.Source == usageevent.SourceBreaker:
		return bus.Record{}, invalid("", "source is one of Weir's own.")
	case ev.Subject != "" && ev.Subject != c.tenant:
		return bus.Record{}, problem(admit.ForbiddenTenant, "The subject is another tenant than the credential's.")
	case lineage.Read(ev.Data.Traceparent, ev.Data.Tracestate).Contradicts(c.tenant):
		return bus.Record{}, problem(admit.ForbiddenTenant, "tracestate claims another tenant than the credential's.")
	}
	if p := s.tokenOf(c, ev); p != nil {
		return bus.Record{}, p
	}
	ev.Subject, ev.Data.Reservation, ev.Data.APIKeyID = c.tenant, nil, c.keyID()
	if _, err := consumed.Usage(ev.Data); err != nil { // the dead letter would say the same, when nobody waits any more
		return bus.Record{}, invalid("", err.Error())
	}
	value := usageevent.Encode(ev)
	record := bus.NewRecord(topics.UsageEvents, c.tenant, []byte(c.tenant), value,
		bus.Header{Key: "content-type", Value: []byte(usageevent.ContentType)},
		bus.Header{Key: identity.SignatureHeader, Value: []byte(identity.Sign(s.cfg.Secret, value))})
	if record.Size() > topics.UsageEvents.MaxRecordBytes() {
		return bus.Record{}, invalid("", "The event is larger than a record may be.")
	}
	return record, nil
}

// tokenOf judges an event's execution token at the event's own time, as the attributor does, so that what waited for an
// outage to end is not lost.
func (s *Service) tokenOf(c caller, ev usageevent.Event) *Problem {
	if ev.Data.ExecutionToken == "" {
		return nil
	}
	at, latest := ev.Time, s.deps.Now().Add(tokenSkew)
	if at.IsZero() {
		at = s.deps.Now()
	}
	if at.After(latest) {
		at = latest
	}
	x, err := identity.VerifyExecutionToken(ev.Data.ExecutionToken, s.catalogs.signing.Get, at)
	if err != nil {
		return identityProblem(err)
	}
	if x.Tenant != c.tenant {
		return problem(admit.ForbiddenTenant, "The execution token is of another tenant.")
	}
	return nil
}

// newEvents makes the producer of the ingest. It gives a record up when its caller is answered, so that what is in flight
// is what inFlight counts.
func (s *Service) newEvents() (err error) {
	s.events, err = s.conn.Producer(bus.ProducerConfig{DeliveryTimeout: ingestDeadlines * s.cfg.Deadline}, topics.UsageEvents)
	return err
}

// ingestDeadlines is how many deadlines Kafka gets to acknowledge: it may be electing a leader.
const ingestDeadlines = 3
