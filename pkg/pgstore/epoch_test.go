package pgstore

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: no lease of a lost epoch was given after LastLease, and after a long stop nothing is waited for.
func TestLastLease(t *testing.T) {
	raised := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		row  RedisEpoch
		want time.Time
	}{
		"never raised":      {RedisEpoch{ActiveAt: raised}, time.Time{}},
		"active at the end": {RedisEpoch{RaisedAt: raised, LostActiveAt: raised.Add(-time.Second)}, raised},
		"just stopped":      {RedisEpoch{RaisedAt: raised, LostActiveAt: raised.Add(-3500 * time.Millisecond)}, raised.Add(-500 * time.Millisecond)},
		"stopped last week": {RedisEpoch{RaisedAt: raised, LostActiveAt: raised.AddDate(0, 0, -7)}, raised.AddDate(0, 0, -7).Add(3 * time.Second)},
		"clock went back":   {RedisEpoch{RaisedAt: raised, LostActiveAt: raised.Add(time.Hour)}, raised},
	} {
		if got := c.row.LastLease(); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Goal: markers are what the attributor takes: signed, of one partition each, the same whoever makes them.
func TestEpochMarkers(t *testing.T) {
	secret, err := identity.NewSecret(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	first, again := EpochMarkers(secret, 9, usageevent.EpochBarrier, 3), EpochMarkers(secret, 9, usageevent.EpochBarrier, 3)
	for i, e := range first {
		ev, err := usageevent.Decode(e.Payload, nil)
		if err != nil || *ev.Data.Marker != (usageevent.Marker{Epoch: 9, Phase: usageevent.EpochBarrier, Partition: int32(i)}) || ev.ID != e.ID || *e.Partition != int32(i) ||
			!identity.Verify(secret, e.Payload, e.Headers[identity.SignatureHeader]) || string(again[i].Payload) != string(e.Payload) {
			t.Errorf("%d: %+v, %v", i, e, err)
		}
	}
}
