package pgstore

import (
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/usageevent"
)

// EpochMarkers are the signed markers of a phase (usageevent.EpochRaised or EpochBarrier) for RaiseEpoch and AddBarrier,
// one for each partition of usage.events.v1. Whoever makes them makes the same ones.
func EpochMarkers(secret identity.Secret, epoch int64, phase string, partitions int) []outbox.Event {
	out := make([]outbox.Event, partitions)
	for i := range out {
		partition := int32(i)
		ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: epoch, Phase: phase, Partition: partition})
		value := usageevent.Encode(ev)
		out[i] = outbox.Event{ID: ev.ID, AggregateType: "epoch", AggregateID: ev.ID, Type: ev.Type, Partition: &partition, Payload: value,
			Headers: map[string]string{"content-type": usageevent.ContentType, identity.SignatureHeader: identity.Sign(secret, value)}}
	}
	return out
}
