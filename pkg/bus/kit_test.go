package bus_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/testkit"
)

// limit is how long any condition may take before a test fails; nothing waits that long when all is well.
const limit = 2 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func testTopic(name string, partitions int) bus.Topic {
	return bus.NewTopic(bus.TopicSpec{Name: name, Key: "tenant", Partitions: partitions, Cleanup: "delete", RetentionMs: -1, MaxRecordBytes: 1000})
}

// kafka is one in-process broker and the connections of the test's processes to it.
type kafka struct {
	t       *testing.T
	cluster *kfake.Cluster
	address bus.Address
}

func startKafka(t *testing.T, topics ...bus.Topic) *kafka {
	t.Helper()
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}
	for _, topic := range topics {
		opts = append(opts, kfake.SeedTopics(int32(topic.Partitions()), topic.Name()))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	testkit.Patient(cluster)
	address, err := bus.ParseAddress("kafka://" + strings.Join(cluster.ListenAddrs(), ","))
	if err != nil {
		t.Fatal(err)
	}
	return &kafka{t: t, cluster: cluster, address: address}
}

// connect plays one process: a connection with its own registry.
func (k *kafka) connect(id string) (*bus.Conn, *prometheus.Registry) {
	k.t.Helper()
	registry := prometheus.NewRegistry()
	conn, err := bus.Connect(bus.Options{Address: k.address, ClientID: id, Log: slog.New(slog.DiscardHandler), Metrics: registry, Now: time.Now})
	if err != nil {
		k.t.Fatal(err)
	}
	return conn, registry
}

func (k *kafka) admin() *bus.Admin {
	k.t.Helper()
	conn, _ := k.connect("admin")
	a, err := conn.Admin()
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(a.Close)
	return a
}

func newProducer(t *testing.T, conn *bus.Conn, topics ...bus.Topic) *bus.Producer {
	t.Helper()
	p, err := conn.Producer(bus.ProducerConfig{DeliveryTimeout: limit}, topics...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.WithoutCancel(t.Context())) })
	return p
}

// fill writes n records "0".."n-1" to one partition, one call after the other in chunks.
func (k *kafka) fill(topic bus.Topic, partition int32, from, n int) {
	k.t.Helper()
	conn, _ := k.connect("filler")
	p := newProducer(k.t, conn, topic)
	records := make([]bus.Record, n)
	for i := range records {
		records[i] = bus.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: fmt.Append(nil, from+i)}
	}
	if err := p.Produce(within(k.t), records...); err != nil {
		k.t.Fatal(err)
	}
}

// committed waits until a group stands there in partition 0.
func (k *kafka) committed(ctx context.Context, group string, topic bus.Topic, offset int64) {
	k.t.Helper()
	a := k.admin()
	for {
		at, err := a.CommittedOffsets(ctx, group, topic)
		if err == nil && at[0].Offset == offset {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			k.t.Fatalf("never: %s at %d; it is at %v, %v", group, offset, at, err)
		}
	}
}

// running is a consumer in its goroutine.
type running struct {
	stop context.CancelFunc
	end  chan error
}

func run(t *testing.T, conn *bus.Conn, cfg bus.ConsumerConfig, h bus.Handler) *running {
	t.Helper()
	cfg.RetryMin, cfg.RetryMax = time.Millisecond, 5*time.Millisecond
	c, err := conn.Consumer(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, end: make(chan error, 1)}
	go func() { r.end <- c.Run(ctx) }()
	t.Cleanup(func() { r.halt(t) })
	return r
}

// halt ends the consumer and waits for it; a second call does nothing.
func (r *running) halt(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.end:
		if err != nil {
			t.Errorf("consumer ended with %v", err)
		}
		r.end <- nil
	case <-time.After(limit):
		t.Error("consumer did not end")
	}
}

// log collects what handlers saw, and lets a test wait for a condition over it.
type log struct {
	mu      sync.Mutex
	values  map[int32][]string
	changed chan struct{}
}

func newLog() *log { return &log{values: map[int32][]string{}, changed: make(chan struct{})} }

func (l *log) add(batch []bus.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range batch {
		l.values[r.Partition] = append(l.values[r.Partition], string(r.Value))
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *log) wait(ctx context.Context, t *testing.T, what string, ok func(values map[int32][]string) bool) {
	t.Helper()
	for {
		l.mu.Lock()
		done, changed := ok(l.values), l.changed
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("never: %s; saw %d partitions: %v", what, len(l.values), l.values)
		}
	}
}

func receive[T any](ctx context.Context, t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-ctx.Done():
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// metric sums a metric's samples over all labels.
func metric(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += value(m)
			}
		}
	}
	return sum
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

func numbers(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(from + i)
	}
	return out
}
