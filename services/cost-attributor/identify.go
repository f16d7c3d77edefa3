package costattributor

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/lineage"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Reasons of the dead letter that are this service's own; those of pkg/usageevent and of pkg/usageevent/consumed, and the
// verdicts of pkg/domain/ledger come beside them.
const (
	reasonNoIdentity     = "no_identity"
	reasonTenantMismatch = "tenant_mismatch"
	reasonUnknownTenant  = "unknown_tenant"
	reasonOutOfRange     = "cost_out_of_range"
	reasonMisrouted      = "misrouted"
)

// reject is poison: why a record goes to the dead letter.
type reject struct{ reason, detail string }

// Error is the reason and the detail.
func (r *reject) Error() string { return r.reason + ": " + r.detail }

func rejected(reason, format string, args ...any) *reject {
	return &reject{reason: reason, detail: fmt.Sprintf(format, args...)}
}

// skew is how far ahead of its record's timestamp an event's own time may be: clocks differ. A later one is booked as that
// moment, and flagged: what was used is owed, whatever the clock of who says so, but not in a month that has not begun.
const skew = 5 * time.Minute

// behind is how long before its record's timestamp an event may say that it was, without a flag: whatever a day of an outage
// held back. An older one is booked in its own windows all the same, which restates them.
const behind = 24 * time.Hour

// verified is a decoded event with what was proved about it.
type verified struct {
	event  usageevent.Event
	tenant string
	// signed: by admission or breaker, so the reservation block is believed.
	signed  bool
	lineage ledger.Lineage
	// branches are those of the execution token that proved the lineage: their ids.
	branches []string
	// at is the event's time, bounded by the record's.
	at time.Time
}

// verifier decides who pays (I8).
type verifier struct {
	secret identity.Secret
	keys   func(keyID string) (*weirv1.SigningKey, bool)
	// trusted: producers of the topic are the operator's own, so an event may name its tenant itself.
	trusted bool
}

// identify verifies an event. The error is a *reject.
func (v verifier) identify(ev usageevent.Event, r bus.Record) (verified, error) {
	out := verified{event: ev, tenant: ev.Subject, at: eventTime(ev, r)}
	trace := lineage.Read(ev.Data.Traceparent, ev.Data.Tracestate)
	out.lineage = claimed(ev, trace)
	signature, hasSignature := r.Header(identity.SignatureHeader)
	own := ev.Source == usageevent.SourceAdmission || ev.Source == usageevent.SourceBreaker
	switch {
	case hasSignature:
		if !identity.Verify(v.secret, r.Value, string(signature)) {
			return out, rejected(reasonNoIdentity, "the signature is not that of admission or breaker")
		}
		out.signed = true
		// Admission's ingest has judged the token before it signed; here it tells the place in the tree.
		if token := ev.Data.ExecutionToken; token != "" && !own {
			if e, err := identity.VerifyExecutionToken(token, v.keys, out.at); err == nil && e.Tenant == ev.Subject {
				out.prove(e)
			}
		}
	case own || ev.Type != usageevent.TypeUsage:
		// Whoever could take an id of admission first would make its event a conflict.
		return out, rejected(reasonNoIdentity, "source %s and type %s are only accepted signed", ev.Source, ev.Type)
	case ev.Data.ExecutionToken != "":
		e, err := identity.VerifyExecutionToken(ev.Data.ExecutionToken, v.keys, out.at)
		if err != nil {
			return out, rejected(reasonNoIdentity, "%v", err)
		}
		if ev.Subject != "" && ev.Subject != e.Tenant {
			return out, rejected(reasonTenantMismatch, "the subject is another tenant than the token's")
		}
		out.tenant = e.Tenant
		out.prove(e)
	case !v.trusted:
		return out, rejected(reasonNoIdentity, "neither a signature nor an execution token, and the topic is not trusted")
	}
	switch {
	case out.tenant == "":
		return out, rejected(reasonNoIdentity, "no subject")
	case trace.Contradicts(out.tenant):
		return out, rejected(reasonTenantMismatch, "tracestate claims another tenant")
	}
	if out.signed && ev.Data.Reservation != nil {
		out.lineage.Depth = ev.Data.Reservation.Depth
	}
	return out, nil
}

// eventTime is when it happened: the event's own time if it says one, at most a little ahead of its record.
func eventTime(ev usageevent.Event, r bus.Record) time.Time {
	recorded := recordedAt(r)
	if ev.Time.IsZero() {
		return recorded
	}
	if latest := recorded.Add(skew); ev.Time.After(latest) {
		return latest
	}
	return ev.Time
}

// timeFlag is what is odd of the event's time, beside when it was recorded; "" for nothing. It follows from the record alone.
func (v *verified) timeFlag(recorded time.Time) string {
	switch {
	case v.event.Time.After(v.at):
		return ledger.FlagTimeAhead
	case recorded.Sub(v.at) > behind:
		return ledger.FlagTimeBehind
	default:
		return ""
	}
}

// recordedAt is the record's timestamp, kept within what every store of ours can hold.
func recordedAt(r bus.Record) time.Time {
	first, last := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case r.Timestamp.Before(first):
		return first
	case r.Timestamp.After(last):
		return last
	}
	return r.Timestamp.UTC()
}

// claimed is the lineage that the event claims: its own members first, then the trace's.
func claimed(ev usageevent.Event, trace lineage.Context) ledger.Lineage {
	d := ev.Data
	return ledger.Lineage{
		RootExecutionID: cmp.Or(d.RootExecutionID, trace.RootExecutionID), ParentAgentID: cmp.Or(d.ParentAgentID, trace.ParentAgentID),
		AgentID: cmp.Or(d.AgentID, trace.AgentID), CostCenter: cmp.Or(d.CostCenter, trace.CostCenter, lineage.Unassigned),
		TraceID: trace.TraceID, SpanID: trace.SpanID,
	}
}

// prove takes what a token says: it overrules every claim.
func (v *verified) prove(e identity.Execution) {
	l := &v.lineage
	l.RootExecutionID, l.Depth, l.ParentAgentID = e.Root, int32(e.Depth), e.ParentAgent
	l.AgentID, l.CostCenter = cmp.Or(e.Agent, l.AgentID), cmp.Or(e.CostCenter, l.CostCenter)
	for _, b := range e.Branches {
		v.branches = append(v.branches, b.ID)
	}
}

// reasonOf is the dead letter's reason of an error that is not a dependency's.
func reasonOf(err error) (*reject, bool) {
	if r, ok := errors.AsType[*reject](err); ok {
		return r, true
	}
	if e, ok := errors.AsType[*usageevent.Error](err); ok {
		return &reject{string(e.Reason), e.Detail}, true
	}
	return nil, false
}
