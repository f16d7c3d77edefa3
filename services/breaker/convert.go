package breaker

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/breaker"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// root names one root execution.
type root struct{ tenant, execution string }

// key is the record key of its revocation: tenant and root execution, separated by a zero byte.
func (r root) key() string { return r.tenant + "\x00" + r.execution }

// signal is what an entry means for its execution; false where it means nothing: no execution, our own termination, a marker.
func signal(e ledger.Entry) (breaker.Signal, bool) {
	if e.Lineage.RootExecutionID == "" || e.Kind == ledger.Termination || e.IsMarker() {
		return breaker.Signal{}, false
	}
	s := breaker.Signal{At: e.RecordedAt, Cost: money.Nano(int64(e.Own) + int64(e.External)), Depth: e.Lineage.Depth, Parent: e.Lineage.ParentAgentID}
	switch e.Kind {
	case ledger.Usage, ledger.Unsettled:
		s.Calls = 1
	case ledger.Reversal:
		s.Calls = -1 // what is reversed is a call; the figure that replaces it, if any, is one again
	}
	return s, true
}

// refusal reads a decision; false if it trips nothing.
func refusal(value []byte) (root, breaker.Signal, bool, error) {
	d := new(weirv1.Decision)
	if err := proto.Unmarshal(value, d); err != nil {
		return root{}, breaker.Signal{}, false, fmt.Errorf("decode decision: %w", err)
	}
	if !d.GetTrip() {
		return root{}, breaker.Signal{}, false, nil
	}
	r := root{d.GetTenantId(), d.GetRootExecutionId()}
	if r.tenant == "" || r.execution == "" || d.GetDecidedAt() == nil {
		return r, breaker.Signal{}, false, fmt.Errorf("decision of tenant %q trips root %q without naming tenant, root and time", r.tenant, r.execution)
	}
	return r, breaker.Signal{At: d.GetDecidedAt().AsTime(), Refusal: &breaker.Refusal{Code: d.GetCode(), Limit: d.GetLimit()}}, true, nil
}

// termination is the signed usage event from which the attributor books the end of an execution, in the name of the root's
// own agent where that is known.
func termination(secret identity.Secret, t ended) bus.Record {
	r, trip := t.root, t.trip
	value := usageevent.Encode(usageevent.Event{
		ID: "termination:" + r.execution, Source: usageevent.SourceBreaker, Type: usageevent.TypeTermination, Subject: r.tenant, Time: trip.At,
		Data: usageevent.Data{RootExecutionID: r.execution, AgentID: t.who.agent, CostCenter: t.who.costCenter, Status: string(ledger.Failed), ErrorCode: string(trip.Reason)},
	})
	return bus.NewRecord(topics.UsageEvents, r.tenant, []byte(r.tenant), value,
		bus.Header{Key: identity.SignatureHeader, Value: []byte(identity.Sign(secret, value))},
		bus.Header{Key: "content-type", Value: []byte(usageevent.ContentType)})
}

// revocation is the record that ends an execution at the door.
func revocation(r root, trip breaker.Trip) (bus.Record, error) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(&weirv1.Revocation{TenantId: r.tenant, RootExecutionId: r.execution,
		Reason: string(trip.Reason), Observed: trip.Observed, Threshold: trip.Threshold, RevokedAt: timestamppb.New(trip.At)})
	if err != nil {
		return bus.Record{}, fmt.Errorf("encode revocation of %s: %w", r.execution, err)
	}
	return bus.NewRecord(topics.ExecutionsRevoked, r.tenant, []byte(r.key()), value), nil
}
