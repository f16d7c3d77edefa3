//go:build integration

package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/gen/migrations"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
)

func database(t testing.TB) string { return testkit.MigratedPostgres(t) }

func migrated(t testing.TB, url string) string {
	t.Helper()
	if _, err := migrate.Postgres(t.Context(), connect(t, url), migrations.Postgres); err != nil {
		t.Fatal(err)
	}
	return url
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// broker is a kfake that keeps its data and its port, so that it can go away and come back.
type broker struct {
	t       testing.TB
	dir     string
	port    int
	cluster *kfake.Cluster
}

func newBroker(t testing.TB) *broker {
	t.Helper()
	port, err := part.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, dir: t.TempDir(), port: port}
	b.start()
	admin, err := b.conn("admin").Admin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.EnsureTopics(t.Context(), []bus.Topic{topics.UsageEvents}, 1); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *broker) start() {
	b.t.Helper()
	_, b.cluster = testkit.KafkaCluster(b.t, kfake.Ports(b.port), kfake.DataDir(b.dir), kfake.SyncWrites())
}

func (b *broker) stop() { b.cluster.Close() }

func (b *broker) url() string { return fmt.Sprintf("kafka://127.0.0.1:%d", b.port) }

func (b *broker) conn(id string) *bus.Conn {
	b.t.Helper()
	address, err := bus.ParseAddress(b.url())
	if err != nil {
		b.t.Fatal(err)
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: id, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// published reads the topic: the values of each key in the order of the first sight, and how many records there are.
func (b *broker) published() (firsts map[string][]string, total int) {
	b.t.Helper()
	firsts, seen := map[string][]string{}, map[string]bool{}
	conn := b.conn("reader")
	for p := range topics.UsageEvents.Partitions() {
		err := conn.ReadPartition(b.t.Context(), topics.UsageEvents, int32(p), -1, -1, func(r bus.Record) error {
			total++
			key, id := string(r.Key), string(r.Value)
			if header, ok := r.Header("id"); !ok || string(header) != key+":"+id {
				return fmt.Errorf("header id is %q", header)
			}
			if want := bus.PartitionFor(r.Key, topics.UsageEvents.Partitions()); r.Partition != want {
				return fmt.Errorf("%s is in partition %d, not %d", r.Key, r.Partition, want)
			}
			if !seen[key+":"+id] {
				seen[key+":"+id] = true
				firsts[key] = append(firsts[key], id)
			}
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return firsts, total
}

// patience bounds every wait of these tests; nothing waits that long when all is well.
const patience = 2 * time.Minute

// until polls a condition that another process or goroutine will bring about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never happened: " + what)
		}
	}
}

func testConfig(url, kafkaURL string) Config {
	return Config{Settings: service.Settings{Kafka: kafkaURL, HTTP: "127.0.0.1:0", LogLevel: "warn", LogFormat: "text"}, Postgres: url, Poll: 2 * time.Millisecond, BatchRows: 50,
		BatchBytes: 1 << 20, Rotate: 5 * time.Millisecond, RotateRows: 100, Standby: 5 * time.Millisecond, Grace: 2 * time.Second}
}

// newRelay makes a bare relay whose acknowledgements a test can interfere with.
func newRelay(t testing.TB, cfg Config, produce func(context.Context, ...bus.Record) error) *relay {
	t.Helper()
	postgres := lifecycle.NewDependency("postgres", slog.New(slog.DiscardHandler), time.Now)
	m, err := newMetrics(prometheus.NewRegistry(), time.Now, postgres)
	if err != nil {
		t.Fatal(err)
	}
	return &relay{cfg: cfg, log: slog.New(slog.DiscardHandler), metrics: m, now: time.Now, postgres: postgres, produce: produce, writes: []bus.Topic{topics.UsageEvents}, byDefault: topics.UsageEvents}
}

func newProducer(t testing.TB, b *broker) *bus.Producer {
	t.Helper()
	p, err := b.conn("relay").Producer(bus.ProducerConfig{}, topics.UsageEvents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Close(ctx)
	})
	return p
}

func event(key string, n int64) outbox.Event {
	id := fmt.Sprint(n)
	return outbox.Event{ID: key + ":" + id, AggregateType: "tenant", AggregateID: key, Type: "weir.usage.v1", Payload: []byte(id)}
}

func write(t testing.TB, conn *pgx.Conn, events ...outbox.Event) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		var errs []error
		for _, e := range events {
			errs = append(errs, outbox.Append(t.Context(), tx, e))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func backlog(t testing.TB, url string) int64 {
	t.Helper()
	s, err := outbox.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	b, err := s.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b.Rows
}
