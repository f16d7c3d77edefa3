package costattributor

import (
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/usageevent"
)

// mark forwards a marker of admission's to the same partition of the journal, once. It means something in this partition
// alone and between these events alone, so it is never moved: one that stands elsewhere is poison, and so is one that
// admission did not sign, for it would begin a recovery's base.
func (a *attributor) mark(b *book, r bus.Record, ev usageevent.Event) error {
	// Decide.
	signature, _ := r.Header(identity.SignatureHeader)
	switch m := ev.Data.Marker; {
	case !identity.Verify(a.verifier.secret, r.Value, string(signature)):
		return a.refuse(b, r, rejected(reasonNoIdentity, "a marker is only accepted with admission's signature"))
	case m.Partition != r.Partition:
		return a.refuse(b, r, rejected(reasonMisrouted, "the marker is of partition %d", m.Partition))
	}
	d := b.state.Mark(markerOf(ev, r))
	a.metrics.events.WithLabelValues(string(d.Verdict)).Inc()
	for _, e := range d.Entries {
		if err := b.keep(e); err != nil {
			return err
		}
		a.metrics.entries.WithLabelValues(string(e.Kind)).Inc()
		a.log.Warn("epoch marker", "epoch", e.Marker.Epoch, "phase", string(e.Marker.Phase), obs.Partition, r.Partition, obs.Offset, r.Offset)
	}
	return nil
}

func markerOf(ev usageevent.Event, r bus.Record) ledger.Entry {
	phase := ledger.Raised
	if ev.Data.Marker.Phase == usageevent.EpochBarrier {
		phase = ledger.Barrier
	}
	return ledger.NewMarker(ev.ID, ledger.Marker{Epoch: ev.Data.Marker.Epoch, Phase: phase}, recordedAt(r),
		ledger.Position{Topic: r.Topic.Name(), Partition: r.Partition, Offset: r.Offset})
}
