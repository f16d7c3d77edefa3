package ledgercodec

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func marker() ledger.Entry {
	return ledger.NewMarker("epoch:9:raised:2", ledger.Marker{Epoch: 9, Phase: ledger.Raised}, time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC),
		ledger.Position{Topic: "usage.events.v1", Partition: 2, Offset: 7})
}

// Goal: a marker comes back as it went in, and stands in the partition of its source whatever its key hashes to.
func TestMarkerRoundTrip(t *testing.T) {
	for partition := range int32(3) {
		for _, phase := range []ledger.Phase{ledger.Raised, ledger.Barrier} {
			e := marker()
			e.At.Partition, e.Marker.Phase = partition, phase
			r, err := Record(e)
			if err != nil || r.Partition != partition || !r.Timestamp.Equal(e.RecordedAt) {
				t.Fatalf("%+v, %v", r, err)
			}
			back, err := Unmarshal(r.Value)
			if err != nil || !reflect.DeepEqual(back, e) {
				t.Errorf("%+v, %v", back, err)
			}
		}
	}
}

func TestMarkerStrict(t *testing.T) {
	for name, spoil := range map[string]func(*weirv1.LedgerEntry){
		"no id":     func(m *weirv1.LedgerEntry) { m.Id = "" },
		"a tenant":  func(m *weirv1.LedgerEntry) { m.TenantId = "acme" },
		"no time":   func(m *weirv1.LedgerEntry) { m.RecordedAt = nil },
		"no marker": func(m *weirv1.LedgerEntry) { m.Marker = nil },
		"no epoch":  func(m *weirv1.LedgerEntry) { m.Marker.Epoch = 0 },
		"phase":     func(m *weirv1.LedgerEntry) { m.Marker.Phase = 9 },
	} {
		m := toProto(marker())
		spoil(m)
		if _, err := fromProto(m); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
