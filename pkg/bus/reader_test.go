package bus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
)

func TestReadPartitionBounds(t *testing.T) {
	topic := testTopic("t", 2)
	k := startKafka(t, topic)
	k.fill(topic, 1, 0, 10)
	if err := k.cluster.DeleteRecords("t", 1, 2); err != nil {
		t.Fatal(err)
	}
	conn, _ := k.connect("a")
	for _, c := range []struct {
		partition int32
		from, to  int64
		want      []string
	}{
		{1, -1, -1, numbers(2, 8)},
		{1, 0, 5, numbers(2, 3)},
		{1, 4, 7, numbers(4, 3)},
		{1, 7, 99, numbers(7, 3)},
		{1, 7, 7, nil},
		{1, 0, 2, nil}, // all of it was removed
		{0, -1, -1, nil},
	} {
		var got []string
		err := conn.ReadPartition(within(t), topic, c.partition, c.from, c.to, func(r bus.Record) error {
			got = append(got, string(r.Value))
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("[%d,%d) of partition %d: %v, %v; want %v", c.from, c.to, c.partition, got, err, c.want)
		}
	}
	stop := errors.New("stop")
	if err := conn.ReadPartition(within(t), topic, 1, 0, -1, func(bus.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error of fn: %v", err)
	}
	if err := conn.ReadPartition(within(t), topic, 9, 0, -1, nil); err == nil {
		t.Error("partition 9 of 2 was read")
	}
}

func TestFollowerIsReadyWhenItHasAppliedWhatWasThere(t *testing.T) {
	topic := testTopic("catalog", 2)
	k := startKafka(t, topic)
	k.fill(topic, 0, 0, 20)
	ctx := within(t)
	conn, _ := k.connect("a")
	seen := newLog()
	gate := make(chan struct{})
	var failures atomic.Int32
	f := conn.Follow(topic, func(r bus.Record) error {
		<-gate
		if r.Offset == 7 && failures.Add(1) <= 2 {
			return errors.New("store away")
		}
		seen.add([]bus.Record{r})
		return nil
	})
	end := make(chan error, 1)
	runCtx, stop := context.WithCancel(ctx)
	go func() { end <- f.Run(runCtx) }()
	if f.Ready() {
		t.Error("ready before anything was applied")
	}
	close(gate)
	if err := f.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	seen.wait(ctx, t, "each record once although apply failed twice", func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, 20)) })
	if got := f.Offsets(); !maps.Equal(got, map[int32]int64{0: 20, 1: 0}) {
		t.Errorf("offsets %v", got)
	}
	k.fill(topic, 1, 0, 3)
	seen.wait(ctx, t, "later records", func(v map[int32][]string) bool { return slices.Equal(v[1], numbers(0, 3)) })
	stop()
	if err := receive(ctx, t, "Run ends", end); err != nil {
		t.Error(err)
	}
}

func TestFollowerOfEmptyAndOfEmptiedTopicsIsReady(t *testing.T) {
	empty, emptied := testTopic("empty", 2), testTopic("emptied", 1)
	k := startKafka(t, empty, emptied)
	k.fill(emptied, 0, 0, 5)
	if err := k.cluster.DeleteRecords("emptied", 0, 5); err != nil {
		t.Fatal(err)
	}
	conn, _ := k.connect("a")
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	for _, topic := range []bus.Topic{empty, emptied} {
		f := conn.Follow(topic, func(r bus.Record) error { return fmt.Errorf("unexpected record %v", r) })
		go func() { _ = f.Run(ctx) }()
		if err := f.WaitReady(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestFollowerWaitsForItsTopic(t *testing.T) {
	topic := testTopic("late", 1)
	k := startKafka(t)
	conn, _ := k.connect("a")
	f := conn.Follow(topic, func(bus.Record) error { return nil })
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	go func() { _ = f.Run(ctx) }()
	if err := k.admin().EnsureTopics(ctx, []bus.Topic{topic}, 1); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitReady(ctx); err != nil {
		t.Error(err)
	}
}

func TestEnsureAndCheckTopics(t *testing.T) {
	spec := bus.TopicSpec{Name: "t", Partitions: 3, Cleanup: "compact", RetentionMs: -1, MinCompactionLagMs: 3600_000, MaxRecordBytes: 5000}
	topic := bus.NewTopic(spec)
	k := startKafka(t)
	a, ctx := k.admin(), within(t)
	if err := a.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.CheckTopics(ctx, []bus.Topic{topic}); err == nil || err.Error() != "topic t: missing" {
		t.Errorf("check before: %v", err)
	}
	for range 2 { // the second call finds it there
		if err := a.EnsureTopics(ctx, []bus.Topic{topic}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.CheckTopics(ctx, []bus.Topic{topic}); err != nil {
		t.Errorf("check after: %v", err)
	}
	spec.Partitions, spec.Cleanup, spec.MinCompactionLagMs, spec.MaxRecordBytes = 4, "compact,delete", 7, 1<<21
	err := a.CheckTopics(ctx, []bus.Topic{bus.NewTopic(spec)})
	want := []string{"3 partitions, want 4", "cleanup.policy is compact, want compact,delete", "min.compaction.lag.ms is 3600000, want 7", "max.message.bytes is"}
	for _, w := range want {
		if err == nil || !contains(err.Error(), w) {
			t.Errorf("difference %q is not listed in:\n%v", w, err)
		}
	}
	ends, err := a.EndOffsets(ctx, topic)
	if err != nil || !maps.Equal(ends, map[int32]int64{0: 0, 1: 0, 2: 0}) {
		t.Errorf("end offsets %v, %v", ends, err)
	}
	if _, err := a.EndOffsets(ctx, testTopic("none", 1)); err == nil {
		t.Error("end offsets of a topic that is not there")
	}
}

// A topic whose settings cannot be read is not as declared: the broker refuses one of two, and both are told of.
func TestCheckTopicsTellsWhatItCannotRead(t *testing.T) {
	k := startKafka(t, testTopic("a", 1), testTopic("b", 1))
	k.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			resource := kmsg.DescribeConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
			if r.ResourceName == "b" {
				resource.ErrorCode = kerr.InvalidRequest.Code
			}
			resp.Resources = append(resp.Resources, resource)
		}
		return resp, nil, true
	})
	err := k.admin().CheckTopics(within(t), []bus.Topic{testTopic("a", 1), testTopic("b", 1)})
	if err == nil || !contains(err.Error(), "describe topic b: INVALID_REQUEST") {
		t.Errorf("check: %v", err)
	}
}
