package bus_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// The broker goes away and comes back at its address with its data: consumer, follower and producer go on by themselves.
func TestKafkaAwayAndBack(t *testing.T) {
	topic := testTopic("t", 1)
	dir := t.TempDir()
	port, err := part.FreePort() // no client that dials it meanwhile is lent it
	if err != nil {
		t.Fatal(err)
	}
	start := func() *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SeedTopics(1, "t"), kfake.Ports(port))
		if err != nil {
			t.Fatal(err)
		}
		testkit.Patient(c)
		return c
	}
	cluster := start()
	t.Cleanup(func() { cluster.Close() }) // the one that is there by then, after its clients
	a, err := bus.ParseAddress(fmt.Sprintf("kafka://127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	k := &kafka{t: t, cluster: cluster, address: a}
	conn, _ := k.connect("a")
	producer := newProducer(t, conn, topic)
	produce := func(from, n int) error {
		var records []bus.Record
		for _, v := range numbers(from, n) {
			records = append(records, bus.Record{Topic: topic, Value: []byte(v)})
		}
		return producer.Produce(within(t), records...)
	}
	if err := produce(0, 5); err != nil {
		t.Fatal(err)
	}
	handled, followed := newLog(), newLog()
	run(t, conn, bus.ConsumerConfig{Group: "g", Topics: []bus.Topic{topic}}, func(_ context.Context, _ bus.Claim, batch []bus.Record) error {
		handled.add(batch)
		return nil
	})
	f := conn.Follow(topic, func(r bus.Record) error { followed.add([]bus.Record{r}); return nil })
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	go func() { _ = f.Run(ctx) }()
	want := func(n int) func(map[int32][]string) bool {
		return func(v map[int32][]string) bool { return slices.Equal(v[0], numbers(0, n)) }
	}
	handled.wait(ctx, t, "the first records are handled", want(5))
	followed.wait(ctx, t, "the first records are followed", want(5))
	// The broker that comes back knows no members: who begins again begins at what was committed.
	k.committed(ctx, "g", topic, 5)

	cluster.Close()
	produced := make(chan error, 1)
	go func() { produced <- produce(5, 5) }() // waits for the broker
	cluster = start()
	if err := receive(ctx, t, "the producer goes on", produced); err != nil {
		t.Fatal(err)
	}
	handled.wait(ctx, t, "the rest is handled, nothing twice", want(10))
	followed.wait(ctx, t, "the rest is followed", want(10))
}
