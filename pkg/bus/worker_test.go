package bus_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
)

func TestFullReadAheadPausesAndGoesOn(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 300)
	conn, _ := k.connect("a")
	cfg := config(topic)
	cfg.MaxBatch, cfg.MaxPending = 7, 7
	seen := newLog()
	run(t, conn, cfg, func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seen.add(batch); return nil })
	seen.wait(within(t), t, "everything, in order, through a tiny window", func(v map[int32][]string) bool {
		return slices.Equal(v[0], numbers(0, 300))
	})
}

func TestLingerMakesOneBatchOfWhatComesTogether(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	conn, _ := k.connect("a")
	cfg := config(topic)
	cfg.Linger, cfg.MaxBatch = time.Minute, 50 // only a full batch ends the wait within the test
	sizes := make(chan int, 10)
	run(t, conn, cfg, func(_ context.Context, _ bus.Claim, batch []bus.Record) error { sizes <- len(batch); return nil })
	for i := range 5 {
		k.fill(topic, 0, i*10, 10)
	}
	if n := receive(within(t), t, "a batch", sizes); n != 50 {
		t.Errorf("batch of %d", n)
	}
}

// A member whose session the broker has ended loses its partitions: the batch in flight is dropped, not committed.
func TestLostPartitionIsDropped(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 3)
	ctx := within(t)
	conn, _ := k.connect("a")
	lost := make(chan int32, 1)
	cfg := config(topic)
	cfg.OnLost = func(c bus.Claim) { lost <- c.Partition() }
	entered := make(chan struct{}, 10)
	var zombie atomic.Bool
	zombie.Store(true)
	seen := newLog()
	run(t, conn, cfg, func(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
		if zombie.CompareAndSwap(true, false) {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		seen.add(batch)
		return nil
	})
	receive(ctx, t, "mid-batch", entered)
	f := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "g", TopLevel: true, Err: kerr.UnknownMemberID, Count: 1})
	defer f.Remove()
	receive(ctx, t, "OnLost", lost)
	seen.wait(ctx, t, "assigned again from the same place", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, 3)) })
}
