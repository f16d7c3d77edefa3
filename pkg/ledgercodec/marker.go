package ledgercodec

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func markerToProto(e ledger.Entry) *weirv1.LedgerEntry {
	return &weirv1.LedgerEntry{Id: e.ID, Kind: kinds.encode(e.Kind), RecordedAt: stamp(e.RecordedAt),
		Marker:      &weirv1.EpochMarker{Epoch: e.Marker.Epoch, Phase: phases.encode(e.Marker.Phase)},
		SourceTopic: e.At.Topic, SourcePartition: e.At.Partition, SourceOffset: e.At.Offset}
}

func markerFromProto(m *weirv1.LedgerEntry) (ledger.Entry, error) {
	phase := phases.decode(m.GetMarker().GetPhase())
	if m.GetId() == "" || m.GetTenantId() != "" || m.GetRecordedAt() == nil || m.GetMarker().GetEpoch() < 1 || phase == "" {
		return ledger.Entry{}, fmt.Errorf("epoch marker %q lacks id, time, epoch or phase, or has a tenant", m.GetId())
	}
	return ledger.NewMarker(m.GetId(), ledger.Marker{Epoch: m.GetMarker().GetEpoch(), Phase: phase}, instant(m.GetRecordedAt()),
		ledger.Position{Topic: m.GetSourceTopic(), Partition: m.GetSourcePartition(), Offset: m.GetSourceOffset()}), nil
}
