package bus_test

import (
	"context"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
)

// The broker goes away and comes back at its address with its data: consumer, follower and producer go on by themselves.
func TestKafkaAwayAndBack(t *testing.T) {
	topic := testTopic("t", 1)
	dir := t.TempDir()
	start := func(port int) *kfake.Cluster {
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SeedTopics(1, "t")}
		if port > 0 {
			opts = append(opts, kfake.Ports(port))
		}
		c, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cluster := start(0)
	_, p, err := net.SplitHostPort(cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(p)
	a, err := bus.ParseAddress("kafka://127.0.0.1:" + p)
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

	cluster.Close()
	produced := make(chan error, 1)
	go func() { produced <- produce(5, 5) }() // waits for the broker
	back := start(port)
	t.Cleanup(back.Close)
	if err := receive(ctx, t, "the producer goes on", produced); err != nil {
		t.Fatal(err)
	}
	handled.wait(ctx, t, "the rest is handled, nothing twice", want(10))
	followed.wait(ctx, t, "the rest is followed", want(10))
}
