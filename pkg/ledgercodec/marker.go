package ledgercodec

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// phases pairs the wire form with ours.
func phases() map[weirv1.EpochPhase]ledger.Phase {
	return map[weirv1.EpochPhase]ledger.Phase{weirv1.EpochPhase_EPOCH_PHASE_RAISED: ledger.Raised, weirv1.EpochPhase_EPOCH_PHASE_BARRIER: ledger.Barrier}
}

func markerToProto(e ledger.Entry) *weirv1.LedgerEntry {
	m := &weirv1.LedgerEntry{Id: e.ID, Kind: kindToProto(e.Kind), RecordedAt: stamp(e.RecordedAt), Marker: &weirv1.EpochMarker{Epoch: e.Marker.Epoch},
		SourceTopic: e.At.Topic, SourcePartition: e.At.Partition, SourceOffset: e.At.Offset}
	for wire, phase := range phases() {
		if phase == e.Marker.Phase {
			m.Marker.Phase = wire
		}
	}
	return m
}

func markerFromProto(m *weirv1.LedgerEntry) (ledger.Entry, error) {
	phase := phases()[m.GetMarker().GetPhase()]
	if m.GetId() == "" || m.GetTenantId() != "" || m.GetRecordedAt() == nil || m.GetMarker().GetEpoch() < 1 || phase == "" {
		return ledger.Entry{}, fmt.Errorf("epoch marker %q lacks id, time, epoch or phase, or has a tenant", m.GetId())
	}
	return ledger.NewMarker(m.GetId(), ledger.Marker{Epoch: m.GetMarker().GetEpoch(), Phase: phase}, instant(m.GetRecordedAt()),
		ledger.Position{Topic: m.GetSourceTopic(), Partition: m.GetSourcePartition(), Offset: m.GetSourceOffset()}), nil
}
