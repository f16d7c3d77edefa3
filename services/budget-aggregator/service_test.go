package budgetaggregator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
)

// limit is how long any condition may take before a test fails.
const limit = 2 * time.Minute

// broker is one Kafka with the topics, and a connection of the test's own.
type broker struct {
	address  string
	cluster  *kfake.Cluster
	conn     *bus.Conn
	producer *bus.Producer
	admin    *bus.Admin
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	address, cluster := testkit.KafkaCluster(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	testkit.Patient(cluster)
	parsed, err := bus.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(bus.Options{Address: parsed, ClientID: "test", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{address: address, cluster: cluster, conn: conn}
	if b.admin, err = conn.Admin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.admin.Close)
	if err := b.admin.EnsureTopics(t.Context(), []bus.Topic{topics.LedgerEntries, topics.BudgetWindows}, 1); err != nil {
		t.Fatal(err)
	}
	if b.producer, err = conn.Producer(bus.ProducerConfig{}, topics.LedgerEntries, topics.BudgetWindows); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.producer.Close(context.WithoutCancel(t.Context())) })
	return b
}

// running is one service in its goroutine.
type running struct {
	url  string
	stop context.CancelFunc
	end  chan error
}

func (b *broker) start(t *testing.T, w windowTable) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Settings: service.Settings{Kafka: b.address, LogLevel: "info", LogFormat: "json"}, MaxWindows: 1 << 20, ReadAlong: 50 * time.Millisecond, SinkBatch: 1000,
		SinkLinger: 20 * time.Millisecond, Session: 500 * time.Millisecond}
	s, err := build(cfg, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: time.Now, Listener: l}, w)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{url: "http://" + l.Addr().String(), stop: cancel, end: make(chan error, 1)}
	go func() { r.end <- s.Run(ctx) }()
	t.Cleanup(func() { r.halt(t) })
	return r
}

func (r *running) halt(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.end:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
		r.end <- nil
	case <-time.After(limit):
		t.Error("did not end")
	}
}

// eventually waits until what is "".
func eventually(t *testing.T, what func() string) {
	t.Helper()
	deadline := time.After(limit)
	for {
		answer := what()
		if answer == "" {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("never: %s", answer)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// published reads the whole output into a memory, to share its checks.
func (b *broker) published(t *testing.T) map[string]string {
	t.Helper()
	m := newMemory()
	for p := range int32(topics.BudgetWindows.Partitions()) {
		var all []bus.Record
		err := b.conn.ReadPartition(t.Context(), topics.BudgetWindows, p, 0, -1, func(r bus.Record) error {
			all = append(all, r)
			return nil
		})
		if err == nil {
			err = m.Produce(t.Context(), all...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m.totals(t)
}

func (b *broker) settled(t *testing.T, w *table, entries []ledger.Entry) {
	t.Helper()
	want := recompute(entries)
	eventually(t, func() string { return different(b.published(t), want) })
	if w != nil {
		eventually(t, func() string { return different(w.totals(t), want) })
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Entries arrive while copies come and go: totals and table are the plain sums all along.
func TestCopiesComeAndGo(t *testing.T) {
	b, w := startBroker(t), newTable()
	w.refuse = 2 // "too many parts" at first: the sink waits
	rng := rand.New(rand.NewPCG(1, 2))
	entries := someEntries(t, rng, 400)
	put(t, b.producer.Produce, entries[:100]...)
	first := b.start(t, w)
	eventually(t, func() string {
		if code, body := get(t, first.url+"/readyz"); code != http.StatusOK {
			return body
		}
		return ""
	})
	b.settled(t, w, entries[:100])

	second := b.start(t, w) // half of the partitions move
	put(t, b.producer.Produce, entries[100:200]...)
	put(t, b.producer.Produce, entries[50:150]...) // again: a dead owner's late writes
	b.settled(t, w, entries[:200])

	first.halt(t)
	put(t, b.producer.Produce, entries[200:300]...)
	b.settled(t, w, entries[:300])
	second.halt(t)

	put(t, b.producer.Produce, entries[300:]...) // nobody is there
	third := b.start(t, w)
	b.settled(t, w, entries)
	if _, body := get(t, third.url+"/metrics"); len(body) == 0 {
		t.Error("no metrics")
	}
}

// A process that is cut off by the broker after a publication, before its commit: the next one folds again and nothing
// counts twice.
func TestCommitIsLost(t *testing.T) {
	b := startBroker(t)
	var mu sync.Mutex
	lost := 0
	b.cluster.ControlKey(8, func(req kmsg.Request) (kmsg.Response, error, bool) { // OffsetCommit
		b.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		lost++
		return nil, fmt.Errorf("connection cut"), lost < 12
	})
	entries := someEntries(t, rand.New(rand.NewPCG(3, 4)), 200)
	put(t, b.producer.Produce, entries...)
	first := b.start(t, newTable())
	b.settled(t, nil, entries)
	first.stop()
	<-first.end
	first.end <- nil
	more := someEntries(t, rand.New(rand.NewPCG(5, 6)), 260)[200:]
	put(t, b.producer.Produce, more...)
	b.start(t, newTable())
	b.settled(t, nil, append(entries, more...))
	mu.Lock()
	defer mu.Unlock()
	if lost == 0 {
		t.Error("no commit was cut")
	}
}

// A dead owner's late write is repaired while the partition is idle.
func TestIdleOwnerRepairs(t *testing.T) {
	b := startBroker(t)
	entries := []ledger.Entry{entry(t, "1", "acme", "run", start, "0.1"), entry(t, "2", "acme", "run", start, "0.2")}
	put(t, b.producer.Produce, entries...)
	b.start(t, newTable())
	b.settled(t, nil, entries)
	dead := newBook(bus.PartitionFor([]byte("acme"), topics.BudgetWindows.Partitions()), &room{bound: 10}, time.Now)
	if err := dead.fold(entries[0], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := dead.publish(t.Context(), b.producer.Produce); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		last := map[string]int64{}
		err := b.conn.ReadPartition(t.Context(), topics.BudgetWindows, dead.partition, 0, -1, func(r bus.Record) error {
			k, total, _, err := decode(r.Value)
			last[k.text()] = total.Version
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for k, version := range last {
			if version != 2 {
				return fmt.Sprintf("%q ends at version %d", k, version)
			}
		}
		return ""
	})
}

// Markers while copies come and go, on a real log: each partition ends with the base of the last epoch, made as of its
// marker, and totals are the plain sums.
func TestBasesWhileCopiesComeAndGo(t *testing.T) {
	b, w := startBroker(t), newTable()
	raise := func(epoch int64) {
		t.Helper()
		for p := range int32(topics.LedgerEntries.Partitions()) {
			if err := b.producer.Produce(t.Context(), marker(t, p, epoch, ledger.Raised, start)); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(topic bus.Topic, p int32) (all []bus.Record) {
		t.Helper()
		err := b.conn.ReadPartition(t.Context(), topic, p, 0, -1, func(r bus.Record) error {
			all = append(all, r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	based := func() {
		t.Helper()
		eventually(t, func() string {
			for p := range int32(topics.LedgerEntries.Partitions()) {
				if d := checkBases(t, read(topics.BudgetWindows, p), expect(t, read(topics.LedgerEntries, p))); d != "" {
					return fmt.Sprintf("partition %d: %s", p, d)
				}
			}
			return ""
		})
	}
	entries := someEntries(t, rand.New(rand.NewPCG(9, 9)), 300)
	put(t, b.producer.Produce, entries[:100]...)
	raise(1)
	first := b.start(t, w)
	put(t, b.producer.Produce, entries[100:150]...)
	based()
	second := b.start(t, w) // half of the partitions move
	raise(2)
	put(t, b.producer.Produce, entries[150:200]...)
	first.halt(t)
	based()
	second.halt(t)
	put(t, b.producer.Produce, entries[200:250]...)
	raise(3) // nobody is there
	put(t, b.producer.Produce, entries[250:]...)
	b.start(t, w)
	based()
	b.settled(t, w, entries)
}
