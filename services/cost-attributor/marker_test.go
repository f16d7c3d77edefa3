package costattributor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// markers are the records of a phase, one per partition, as the relay publishes them: with keys that hash anywhere.
func (w *world) markers(epoch int64, phase string) []bus.Record {
	w.t.Helper()
	var out []bus.Record
	for p := range int32(topics.UsageEvents.Partitions()) {
		ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: epoch, Phase: phase, Partition: p})
		value := usageevent.Encode(ev)
		r := w.record(value, ev.ID, "content-type", usageevent.ContentType, identity.SignatureHeader, identity.Sign(secret(w.t), value))
		r.Partition = p
		out = append(out, r)
	}
	return out
}

// Goal: each partition of the journal gets its marker, where it stood among the events, once: through redelivery, restarts
// and a write that failed half-way. No marker is ever moved.
func TestMarkersAreForwardedOnce(t *testing.T) {
	w := newWorld(t, false)
	for range 3 {
		for _, phase := range []string{usageevent.EpochRaised, usageevent.EpochBarrier} {
			for _, r := range w.markers(9, phase) {
				if _, reason := w.send(r); reason != "" {
					t.Fatal(reason)
				}
			}
		}
		w.restart()
	}
	n := topics.UsageEvents.Partitions()
	if len(w.journal) != 2*n || len(w.moved) != 0 || len(w.dead) != 0 {
		t.Fatalf("%d in the journal, %d moved, %d dead", len(w.journal), len(w.moved), len(w.dead))
	}
	for i, e := range w.entries(0) {
		p, phase := int32(i%n), []ledger.Phase{ledger.Raised, ledger.Barrier}[i/n]
		if *e.Marker != (ledger.Marker{Epoch: 9, Phase: phase}) || w.journal[i].Partition != p || e.At.Partition != p || !e.RecordedAt.Equal(now) ||
			e.ID != fmt.Sprintf("epoch:9:%s:%d", phase, p) {
			t.Errorf("%d: partition %d, %+v", i, w.journal[i].Partition, e)
		}
	}
}

// The write fails after its first, or second record; whether the process lives or dies, the first occurrences in the
// journal are in the order of the events.
func TestMarkerCrash(t *testing.T) {
	for _, dies := range []bool{false, true} {
		w := newWorld(t, true)
		settle := w.signed(usageevent.OutcomeSettled, nil)
		mark := w.markers(9, usageevent.EpochRaised)[settle.Partition]
		after := w.record(usageevent.Encode(call("after")), "acme")
		batch := []bus.Record{settle, mark, after}
		claim := bus.NewClaim(topics.UsageEvents, settle.Partition, 1, nil)
		for range 2 {
			w.fail = errors.New("broker away")
			if err := w.a.handle(t.Context(), claim, batch); err == nil {
				t.Fatal("the write failed, the handler did not")
			}
			if dies {
				w.restart()
			}
		}
		if err := w.a.handle(t.Context(), claim, batch); err != nil {
			t.Fatal(err)
		}
		var order []ledger.Kind
		seen := map[string]bool{}
		for _, e := range w.entries(0) {
			if !seen[e.ID] {
				order = append(order, e.Kind)
			}
			seen[e.ID] = true
		}
		if fmt.Sprint(order) != "[USAGE EPOCH_MARKER USAGE]" {
			t.Errorf("dies %v: %v", dies, order)
		}
	}
}

// Goal: nobody but admission begins a recovery's base, and nothing but its own partition's marker does, also on a topic
// whose producers are trusted.
func TestMarkersOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*bus.Record)
		reason string
	}{
		"unsigned": {func(r *bus.Record) { r.Headers = nil }, reasonNoIdentity},
		"forged":   {func(r *bus.Record) { r.Headers[1].Value = []byte("v1=00") }, reasonNoIdentity},
		"signature of another marker": {func(r *bus.Record) {
			r.Value = usageevent.Encode(usageevent.MarkerEvent(usageevent.Marker{Epoch: 10, Phase: usageevent.EpochRaised, Partition: r.Partition}))
		}, reasonNoIdentity},
		"in another partition": {func(r *bus.Record) { r.Partition++ }, reasonMisrouted},
		"malformed": {func(r *bus.Record) {
			r.Value = []byte(`{"specversion":"1.0","id":"epoch:9:raised:0","source":"weir/admission","type":"weir.epoch.v1","data":{}}`)
		}, "malformed"},
	} {
		w := newWorld(t, true)
		r := w.markers(9, usageevent.EpochRaised)[0]
		c.spoil(&r)
		entries, reason := w.send(r)
		if reason != c.reason || len(entries) != 0 || len(w.moved) != 0 || string(w.dead[0].Value) != string(r.Value) {
			t.Errorf("%s: %q, %d entries, %d moved", name, reason, len(entries), len(w.moved))
		}
	}
	// A replay of the dead letter of a marker that was refused, or was known, changes nothing either.
	w := newWorld(t, true)
	good := w.markers(9, usageevent.EpochRaised)[0]
	w.send(good)
	good.Offset = w.offset
	w.offset++
	if entries, reason := w.send(good); len(entries) != 0 || reason != "" {
		t.Errorf("again: %d entries, %q", len(entries), reason)
	}
}
