//go:build integration

package costattributor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// marks are the signed markers of a phase, one per partition.
func (r *rig) marks(epoch int64, phase string) []bus.Record {
	r.t.Helper()
	var out []bus.Record
	for p := range int32(topics.UsageEvents.Partitions()) {
		ev := usageevent.MarkerEvent(usageevent.Marker{Epoch: epoch, Phase: phase, Partition: p})
		value := usageevent.Encode(ev)
		rec := bus.NewRecord(topics.UsageEvents, ev.ID, []byte(ev.ID), value, bus.Header{Key: identity.SignatureHeader, Value: []byte(identity.Sign(secret(r.t), value))})
		rec.Partition = p
		out = append(out, rec)
	}
	return out
}

// places reads topic and journal: per partition the ids in the order of their first sight.
func (r *rig) places(topic bus.Topic, name func(bus.Record) (string, error)) (out string) {
	for p := range int32(topic.Partitions()) {
		seen := map[string]bool{}
		out += fmt.Sprint(" ", p, ":")
		err := r.conn.ReadPartition(context.WithoutCancel(r.t.Context()), topic, p, -1, -1, func(rec bus.Record) error {
			id, err := name(rec)
			if !seen[id] && err == nil {
				out += " " + id
			}
			seen[id] = true
			return err
		})
		if err != nil {
			return err.Error()
		}
	}
	return out
}

// Markers among events, two copies, commits that are lost, redelivery of everything: each partition of the journal has its
// markers where they stood, each once, and the ledger has no row of them.
func TestMarkersAmongEvents(t *testing.T) {
	r := newRig(t, testkit.ClickHouse(t))
	var lose atomic.Bool
	r.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return nil, fmt.Errorf("lost"), lose.Load()
	})
	events, marks := calls("a", 60), 6*topics.UsageEvents.Partitions()
	play := func() {
		for i := range 3 {
			r.produce(events[20*i : 20*i+20]...)
			r.produce(r.marks(int64(i+1), usageevent.EpochRaised)...)
			r.produce(r.marks(int64(i+1), usageevent.EpochBarrier)...)
		}
	}
	play()
	lose.Store(true)
	stop := r.start()
	r.await("journal", func() string { return fmt.Sprint(r.journalEnd() > 10) }, "true")
	stop() // nothing was committed
	lose.Store(false)
	stop, stopSecond := r.start(), r.start()
	r.await("journal", func() string { return fmt.Sprint(r.journalEnd()) }, fmt.Sprint(60+marks))
	stop()
	play() // all again
	stop = r.start()
	want := r.settled(60)
	r.await("rows", func() string { return r.sql("SELECT toString(count()) FROM agent_cost_ledger") }, want)
	stop()
	stopSecond()
	event := func(rec bus.Record) (string, error) {
		ev, err := usageevent.Decode(rec.Value, rec.Header)
		return ev.ID, err
	}
	entry := func(rec bus.Record) (string, error) {
		e, err := ledgercodec.Unmarshal(rec.Value)
		if e.IsMarker() {
			return e.ID, err
		}
		return e.EventID, err
	}
	if in, out := r.places(topics.UsageEvents, event), r.places(topics.LedgerEntries, entry); in != out {
		t.Errorf("events\n%s\njournal\n%s", in, out)
	}
	if end := r.journalEnd(); end != int64(60+marks+3) {
		t.Errorf("%d records in the journal", end)
	}
	if got := r.sql("SELECT count() FROM agent_cost_ledger WHERE tenant_id = '' OR event_id = ''"); got != "0" {
		t.Errorf("%s rows of markers", got)
	}
}
