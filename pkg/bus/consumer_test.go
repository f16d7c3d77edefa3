package bus_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
)

func config(topic bus.Topic) bus.ConsumerConfig {
	return bus.ConsumerConfig{Group: "g", Topics: []bus.Topic{topic}, MaxBatch: 10, SessionTimeout: 2 * time.Second}
}

func TestOrderWithinEachPartitionAndCommitAtTheEnd(t *testing.T) {
	topic := testTopic("t", 3)
	k := startKafka(t, topic)
	for p := range int32(3) {
		k.fill(topic, p, 0, 137)
	}
	conn, registry := k.connect("a")
	seen := newLog()
	r := run(t, conn, config(topic), func(_ context.Context, c bus.Claim, batch []bus.Record) error {
		if len(batch) > 10 {
			t.Errorf("batch of %d", len(batch))
		}
		for _, rec := range batch {
			if rec.Partition != c.Partition() || rec.Topic.Name() != "t" {
				t.Errorf("record of %s/%d under a claim of %d", rec.Topic.Name(), rec.Partition, c.Partition())
			}
		}
		seen.add(batch)
		return nil
	})
	seen.wait(within(t), t, "all records", func(v map[int32][]string) bool {
		return slices.Equal(v[0], numbers(0, 137)) && slices.Equal(v[1], numbers(0, 137)) && slices.Equal(v[2], numbers(0, 137))
	})
	r.halt(t)
	at, err := k.admin().CommittedOffsets(within(t), "g", topic)
	if err != nil || at[0] != (bus.Committed{Offset: 137}) || at[1] != at[0] || at[2] != at[0] {
		t.Errorf("committed %v, %v", at, err)
	}
	if n := metric(t, registry, "weir_bus_handled_records_total"); n != 3*137 {
		t.Errorf("handled metric %v", n)
	}
	if n := metric(t, registry, "weir_bus_redelivered_records_total"); n != 0 {
		t.Errorf("redelivered metric %v", n)
	}
}

// A crash is a handler that never returns from its batch: nothing of it is committed, and the next owner sees it again.
func TestRedeliveryAfterCrash(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 25)
	ctx := within(t)
	conn, _ := k.connect("crashes")
	cfg := config(topic)
	cfg.Grace = time.Millisecond
	stuck := make(chan int64, 1)
	a := run(t, conn, cfg, func(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
		if batch[0].Offset < 10 {
			return nil
		}
		stuck <- batch[0].Offset
		<-ctx.Done()
		return ctx.Err()
	})
	if at := receive(ctx, t, "second batch", stuck); at != 10 {
		t.Fatalf("stuck at %d", at)
	}
	a.halt(t)
	conn, _ = k.connect("again")
	seen := newLog()
	run(t, conn, config(topic), func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seen.add(batch); return nil })
	seen.wait(ctx, t, "everything from 10 again", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(10, 15)) })
}

func TestErrorIsRetriedNeverSkippedAndStopsItsPartitionAlone(t *testing.T) {
	topic := testTopic("t", 2)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 30)
	k.fill(topic, 1, 0, 30)
	conn, registry := k.connect("a")
	seen := newLog()
	var heal atomic.Bool
	var failed []string
	erred := make(chan struct{}, 1)
	run(t, conn, config(topic), func(_ context.Context, c bus.Claim, batch []bus.Record) error {
		if c.Partition() == 0 && batch[0].Offset == 10 && !heal.Load() {
			failed = append(failed, string(batch[0].Value), string(batch[len(batch)-1].Value))
			select {
			case erred <- struct{}{}:
			default:
			}
			return errors.New("dependency down")
		}
		seen.add(batch)
		return nil
	})
	seen.wait(within(t), t, "the other partition is done while this one waits", func(v map[int32][]string) bool {
		return len(v[1]) == 30 && len(v[0]) == 10
	})
	receive(within(t), t, "the error", erred)
	heal.Store(true)
	seen.wait(within(t), t, "no gap after the error", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, 30)) })
	for i, v := range failed {
		if want := []string{"10", "19"}[i%2]; v != want {
			t.Errorf("a retry saw another batch: %v", failed)
			break
		}
	}
	if errs, again := metric(t, registry, "weir_bus_handler_errors_total"), metric(t, registry, "weir_bus_redelivered_records_total"); errs < 1 || again != 10*errs {
		t.Errorf("%v errors, %v redelivered", errs, again)
	}
}

// Goal: the lag of a partition whose handler never succeeds, as when its store is away, is seen: also of the first batch.
func TestAStuckPartitionLags(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 30)
	conn, registry := k.connect("a")
	erred := make(chan struct{}, 1)
	run(t, conn, config(topic), func(context.Context, bus.Claim, []bus.Record) error {
		select {
		case erred <- struct{}{}:
		default:
		}
		return errors.New("dependency down")
	})
	receive(within(t), t, "the error", erred)
	if lag := metric(t, registry, "weir_bus_lag_records"); lag != 30 {
		t.Errorf("a lag of %v", lag)
	}
}

func TestRebalanceInMidBatch(t *testing.T) {
	topic := testTopic("t", 2)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 5)
	k.fill(topic, 1, 0, 5)
	ctx := within(t)
	var revoked sync.Map
	cfg := config(topic)
	cfg.OnRevoked = func(c bus.Claim) { revoked.Store(c.Partition(), true) }

	entered, leave := make(chan int32, 2), make(chan struct{})
	connA, _ := k.connect("a")
	seenA, seenB := newLog(), newLog()
	run(t, connA, cfg, func(_ context.Context, c bus.Claim, batch []bus.Record) error {
		if batch[0].Offset == 0 {
			entered <- c.Partition()
			<-leave // both partitions are in mid-batch when the second member arrives
		}
		seenA.add(batch)
		return nil
	})
	receive(ctx, t, "first batch", entered)
	receive(ctx, t, "second batch", entered)
	connB, _ := k.connect("b")
	assigned := make(chan bus.Committed, 2)
	cfgB := config(topic)
	cfgB.OnAssigned = func(_ context.Context, _ bus.Claim, at bus.Committed) (int64, error) {
		assigned <- at
		return bus.AtCommitted, nil
	}
	run(t, connB, cfgB, func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seenB.add(batch); return nil })
	if _, err := k.cluster.WaitGroupInfo(ctx, "g", func(g *kfake.GroupInfo) bool { return g != nil && len(g.Members) == 2 }); err != nil {
		t.Fatal(err)
	}
	close(leave)
	// The batch in flight was finished and committed before the partition moved: B starts behind it, nothing twice.
	if at := receive(ctx, t, "B gets a partition", assigned); at.Offset != 5 {
		t.Errorf("B starts at %v", at)
	}
	k.fill(topic, 0, 5, 5)
	k.fill(topic, 1, 5, 5)
	seenB.wait(ctx, t, "B handles its partition", func(v map[int32][]string) bool {
		return len(v) == 1 && (slices.Equal(v[0], numbers(5, 5)) || slices.Equal(v[1], numbers(5, 5)))
	})
	seenA.wait(ctx, t, "A goes on with the other", func(v map[int32][]string) bool { return len(v[0])+len(v[1]) == 15 })
	for p, v := range seenA.values {
		if _, moved := revoked.Load(p); !moved && !slices.Equal(v, numbers(0, 10)) {
			t.Errorf("A's own partition %d: %v", p, v)
		}
	}
}

func TestProducerFailureBeforeCommit(t *testing.T) {
	in, out := testTopic("in", 1), testTopic("out", 1)
	k := startKafka(t, in, out)
	k.fill(in, 0, 0, 10)
	ctx := within(t)
	conn, registry := k.connect("a")
	producer := newProducer(t, conn, out)
	// The broker refuses the output once, with an error that no client retries by itself.
	refused := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.InvalidRecord, Count: 1})
	defer refused.Remove()
	seen := newLog()
	r := run(t, conn, config(in), func(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
		var emit []bus.Record
		for _, rec := range batch {
			emit = append(emit, bus.Record{Topic: out, Key: rec.Key, Value: rec.Value})
		}
		if err := producer.Produce(ctx, emit...); err != nil {
			return err
		}
		seen.add(batch)
		return nil
	})
	seen.wait(ctx, t, "handled after the retry", func(v map[int32][]string) bool { return len(v[0]) == 10 })
	r.halt(t)
	if n := metric(t, registry, "weir_bus_handler_errors_total"); n < 1 {
		t.Error("the failure never reached the loop")
	}
	var written []string
	if err := conn.ReadPartition(ctx, out, 0, -1, -1, func(rec bus.Record) error { written = append(written, string(rec.Value)); return nil }); err != nil {
		t.Fatal(err)
	}
	// What was refused may have been some of the records, and the others written: the retry wrote all of them behind those.
	if n := len(written) - 10; n < 0 || !slices.Equal(written[n:], numbers(0, 10)) {
		t.Errorf("output %v", written)
	}
}

func TestFailedCommitIsRetriedBeforeTheNextBatch(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 20)
	f := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "t", Err: kerr.InvalidCommitOffsetSize, Count: 2})
	defer f.Remove()
	conn, registry := k.connect("a")
	seen := newLog()
	run(t, conn, config(topic), func(_ context.Context, _ bus.Claim, batch []bus.Record) error {
		if batch[0].Offset > 0 && metric(t, registry, "weir_bus_commit_errors_total") != 2 {
			t.Error("went on before the first batch was committed")
		}
		seen.add(batch)
		return nil
	})
	seen.wait(within(t), t, "each batch once", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, 20)) })
}

func TestIntentInCommitMetadataComesBackToTheNextOwner(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 10)
	ctx := within(t)
	cfg := config(topic)
	cfg.Grace = time.Millisecond
	intent := make(chan error, 1)
	conn, _ := k.connect("a")
	a := run(t, conn, cfg, func(ctx context.Context, c bus.Claim, batch []bus.Record) error {
		intent <- c.Commit(ctx, batch[0].Offset, "v1;pending=0..9")
		<-ctx.Done() // dies between the intent and the end of the effect
		return ctx.Err()
	})
	if err := receive(ctx, t, "the intent is stored", intent); err != nil {
		t.Fatal(err)
	}
	a.halt(t)

	conn, _ = k.connect("b")
	came := make(chan bus.Committed, 1)
	cfg.OnAssigned = func(ctx context.Context, c bus.Claim, at bus.Committed) (int64, error) {
		came <- at
		return 10, c.Commit(ctx, 10, "") // "replayed" what was pending, and says so
	}
	seen := newLog()
	b := run(t, conn, cfg, func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seen.add(batch); return nil })
	if at := receive(ctx, t, "assignment", came); at != (bus.Committed{Offset: 0, Metadata: "v1;pending=0..9"}) {
		t.Errorf("restored from %+v", at)
	}
	k.fill(topic, 0, 10, 3)
	seen.wait(ctx, t, "only what is behind the replay", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(10, 3)) })
	b.halt(t)
	if at, err := k.admin().CommittedOffsets(ctx, "g", topic); err != nil || at[0] != (bus.Committed{Offset: 13}) {
		t.Errorf("metadata is not cleared: %+v, %v", at, err)
	}
}

// A restore may take longer than the session: the member stays, other partitions go on, and the first batch waits.
func TestRestoreComesFirstAndMayBeSlow(t *testing.T) {
	topic := testTopic("t", 2)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 5)
	k.fill(topic, 1, 0, 5)
	ctx := within(t)
	cfg := config(topic)
	cfg.SessionTimeout = 300 * time.Millisecond
	slow := make(chan struct{})
	var restored atomic.Bool
	attempts := 0
	cfg.OnAssigned = func(_ context.Context, c bus.Claim, at bus.Committed) (int64, error) {
		if at != (bus.Committed{Offset: -1}) {
			t.Errorf("a new group stands at %+v", at)
		}
		if c.Partition() == 1 {
			return 2, nil // state knows everything below 2
		}
		if attempts++; attempts == 1 {
			return 0, errors.New("state store away")
		}
		<-slow
		restored.Store(true)
		return bus.AtCommitted, nil
	}
	conn, _ := k.connect("a")
	seen := newLog()
	heartbeats := make(chan struct{}, 100)
	k.cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.cluster.KeepControl()
		select {
		case heartbeats <- struct{}{}:
		default:
		}
		return nil, nil, false
	})
	cfg.OnLost = func(c bus.Claim) { t.Errorf("partition %d lost during the restore", c.Partition()) }
	run(t, conn, cfg, func(_ context.Context, c bus.Claim, batch []bus.Record) error {
		if c.Partition() == 0 && !restored.Load() {
			t.Error("a batch before the restore was done")
		}
		seen.add(batch)
		return nil
	})
	seen.wait(ctx, t, "the quick partition starts where its state ends", func(v map[int32][]string) bool { return slices.Equal(v[1], numbers(2, 3)) })
	for range 6 { // more than a session's worth of heartbeats pass meanwhile
		receive(ctx, t, "heartbeats go on", heartbeats)
	}
	close(slow)
	seen.wait(ctx, t, "the slow one starts at the start", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, 5)) })
}

func TestRestoreCanRewindBehindTheCommit(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 8)
	ctx := within(t)
	for i, start := range []int64{bus.AtCommitted, 3} {
		conn, _ := k.connect("a")
		cfg := config(topic)
		cfg.OnAssigned = func(context.Context, bus.Claim, bus.Committed) (int64, error) { return start, nil }
		seen := newLog()
		r := run(t, conn, cfg, func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seen.add(batch); return nil })
		want := [][]string{numbers(0, 8), numbers(3, 5)}[i]
		seen.wait(ctx, t, "records from the start asked for", func(v map[int32][]string) bool { return slices.Equal(v[0], want) })
		r.halt(t)
	}
}

func TestShutdownUnderLoadCommitsExactlyWhatWasHandled(t *testing.T) {
	topic := testTopic("t", 4)
	k := startKafka(t, topic)
	for p := range int32(4) {
		k.fill(topic, p, 0, 500)
	}
	ctx := within(t)
	conn, _ := k.connect("a")
	seen := newLog()
	r := run(t, conn, config(topic), func(_ context.Context, _ bus.Claim, batch []bus.Record) error { seen.add(batch); return nil })
	seen.wait(ctx, t, "some are handled", func(v map[int32][]string) bool { return len(v) > 0 })
	r.halt(t)
	at, err := k.admin().CommittedOffsets(ctx, "g", topic)
	if err != nil {
		t.Fatal(err)
	}
	for p, v := range seen.values {
		if at[p].Offset != int64(len(v)) || !slices.Equal(v, numbers(0, len(v))) {
			t.Errorf("partition %d: handled %d, committed %d", p, len(v), at[p].Offset)
		}
	}
}

func TestFatalErrorEndsRunWithoutCommit(t *testing.T) {
	topic := testTopic("t", 1)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 3)
	conn, _ := k.connect("a")
	broken := errors.New("sum of the parts is not the whole")
	c, err := conn.Consumer(config(topic), func(context.Context, bus.Claim, []bus.Record) error { return bus.Fatal{Err: broken} })
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- c.Run(within(t)) }()
	if err := receive(within(t), t, "Run ends", end); !errors.Is(err, broken) {
		t.Errorf("Run = %v", err)
	}
	if at, err := k.admin().CommittedOffsets(within(t), "g", topic); err != nil || len(at) != 0 {
		t.Errorf("committed %v, %v", at, err)
	}
}
