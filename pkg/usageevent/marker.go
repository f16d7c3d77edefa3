package usageevent

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/weir-project/weir/pkg/jsonwrite"
)

// TypeEpoch is a marker of admission's in one partition: nothing was used, and there is no tenant (ADR 0009).
const TypeEpoch = "weir.epoch.v1"

// Phases of an epoch that have a marker.
const (
	// EpochRaised: everything before the marker belongs to the epoch's base.
	EpochRaised = "raised"
	// EpochBarrier: what precedes the marker is applied before anything is admitted in the epoch.
	EpochBarrier = "barrier"
)

// maxEpoch is the highest epoch: 52 bits.
const maxEpoch = 1<<52 - 1

// Marker says where in its partition a phase of an epoch of Redis begins.
type Marker struct {
	// Epoch is 1 to 2^52-1.
	Epoch int64
	// Phase is one of the Epoch constants.
	Phase string
	// Partition is the only one where the marker means anything.
	Partition int32
}

// MarkerEvent is the event of a marker. It holds no time: whoever makes it makes the same one.
func MarkerEvent(m Marker) Event {
	return Event{ID: m.id(), Source: SourceAdmission, Type: TypeEpoch, Data: Data{Marker: &m}}
}

func (m Marker) id() string { return fmt.Sprintf("epoch:%d:%s:%d", m.Epoch, m.Phase, m.Partition) }

// readMarker reads the data of a TypeEpoch event; other members are not looked at. Its id and source follow from it, so
// that two markers with the same id can only say the same.
func readMarker(ev *Event, raw json.RawMessage) *Error {
	o, err := members(raw, "data")
	if err != nil {
		return err
	}
	for _, name := range []string{"epoch", "phase", "partition"} {
		if !o.present(name) {
			return malformed("marker without " + name)
		}
	}
	var m Marker
	if m.Epoch, err = o.integer("epoch", maxEpoch); err != nil {
		return err
	}
	if m.Phase, err = o.text("phase", MaxID); err != nil {
		return err
	}
	partition, err := o.integer("partition", math.MaxInt32)
	if err != nil {
		return err
	}
	m.Partition = int32(partition)
	switch {
	case m.Epoch == 0 || m.Phase != EpochRaised && m.Phase != EpochBarrier:
		return malformed(fmt.Sprintf("marker of epoch %d, phase %q", m.Epoch, clip(m.Phase)))
	case ev.ID != m.id() || ev.Source != SourceAdmission || ev.Subject != "":
		return malformed("id, source or subject is not that of a marker")
	}
	ev.Data.Marker = &m
	return nil
}

func (m Marker) members(o *jsonwrite.Object) {
	o.Int("epoch", m.Epoch)
	o.OptionalText("phase", m.Phase)
	o.Int("partition", int64(m.Partition))
}
