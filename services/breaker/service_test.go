package breaker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/ledgercodec"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
)

// limit is how long any condition may take before a test fails.
const limit = 2 * time.Minute

// broker is one Kafka with the topics and the contract of acme, and a connection of the test's own.
type broker struct {
	t        *testing.T
	address  string
	cluster  *kfake.Cluster
	conn     *bus.Conn
	producer *bus.Producer
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
	admin, err := conn.Admin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.EnsureTopics(t.Context(), topics.All, 1); err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, address: address, cluster: cluster, conn: conn}
	if b.producer, err = conn.Producer(bus.ProducerConfig{}, topics.All...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.producer.Close(context.WithoutCancel(t.Context())) })
	contract := tenant.Contract{EffectiveFrom: start.Add(-time.Hour), PublishedAt: start, Limits: tenant.Limits{Concurrency: 1}, Ceilings: tenant.Ceilings{Minute: 1, Day: 1, Month: 1},
		Count: tenant.CountRaw, Month: tenant.MonthCalendar, Ladder: tenant.DefaultLadder(), Execution: limits}
	value, err := catalog.EncodeTenant(tenant.History{ID: "acme", Versions: []tenant.Contract{contract}})
	if err != nil {
		t.Fatal(err)
	}
	b.put(bus.NewRecord(topics.CatalogTenants, "acme", []byte("acme"), value))
	return b
}

func (b *broker) put(records ...bus.Record) {
	b.t.Helper()
	if err := b.producer.Produce(b.t.Context(), records...); err != nil {
		b.t.Fatal(err)
	}
}

// spend books calls of a root, one dollar each.
func (b *broker) spend(root string, from, n int) {
	b.t.Helper()
	for i := range n {
		r, err := ledgercodec.Record(entry(from+i, "acme", root, 1_000_000_000))
		if err != nil {
			b.t.Fatal(err)
		}
		b.put(r)
	}
}

func (b *broker) output() output {
	b.t.Helper()
	out := newOutput()
	for _, topic := range []bus.Topic{topics.ExecutionsRevoked, topics.UsageEvents} { // the event of a revocation is older than it
		for p := range int32(topic.Partitions()) {
			err := b.conn.ReadPartition(b.t.Context(), topic, p, 0, -1, func(r bus.Record) error {
				out.add(b.t, r)
				return nil
			})
			if err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return out
}

// ended waits until exactly these roots of acme have ended, and each event and revocation of one says the same.
func (b *broker) ended(want ...string) output {
	b.t.Helper()
	var out output
	deadline := time.After(limit)
	for {
		out = b.output()
		var got []string
		for id := range out.revocations {
			got = append(got, id.execution)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			break
		}
		select {
		case <-deadline:
			b.t.Fatalf("ended %v, want %v", got, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for id := range out.revocations {
		events, revocations := slices.Compact(slices.Clone(out.events[id])), slices.Compact(slices.Clone(out.revocations[id]))
		if len(events) != 1 || len(revocations) != 1 {
			b.t.Errorf("%v ended as %v, %v", id, events, revocations)
		}
	}
	return out
}

// shared waits until so many copies have the partitions of both groups among them, none of them without any.
func (b *broker) shared(copies int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	for group, topic := range map[string]bus.Topic{JournalGroup: topics.LedgerEntries, DecisionsGroup: topics.AdmissionDecisions} {
		_, err := b.cluster.WaitGroupInfo(ctx, group, func(g *kfake.GroupInfo) bool {
			return g != nil && g.State == "Stable" && len(g.Members) == copies && g.NumAssigned() == topic.Partitions() &&
				!slices.ContainsFunc(g.Members, func(m kfake.GroupMember) bool { return m.NumAssigned() == 0 })
		})
		if err != nil {
			b.t.Fatalf("%s: %v", group, err)
		}
	}
}

// informed waits until a copy has read every revocation there is: of a root of which it has read none it would tell once
// more that it has ended.
func (b *broker) informed(r *running) {
	b.t.Helper()
	admin, err := b.conn.Admin()
	if err != nil {
		b.t.Fatal(err)
	}
	defer admin.Close()
	ends, err := admin.EndOffsets(b.t.Context(), topics.ExecutionsRevoked)
	if err != nil {
		b.t.Fatal(err)
	}
	deadline := time.After(limit)
	for {
		var read map[string]map[int32]int64
		if err := json.Unmarshal([]byte(r.get(b.t, "/catalogz")), &read); err != nil {
			b.t.Fatal(err)
		}
		if maps.Equal(read[topics.ExecutionsRevoked.Name()], ends) {
			return
		}
		select {
		case <-deadline:
			b.t.Fatalf("read %v of %v", read, ends)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type running struct {
	url  string
	stop context.CancelFunc
	end  chan error
}

func (b *broker) start() *running {
	t := b.t
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Settings: service.Settings{Kafka: b.address, LogLevel: "info", LogFormat: "json"}, Secret: secret(t), MaxRootAge: 24 * time.Hour, MaxExecutions: 1000, Session: 500 * time.Millisecond}
	s, err := New(cfg, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: time.Now, Listener: l})
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

func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (r *running) ready(t *testing.T) {
	t.Helper()
	deadline := time.After(limit)
	for {
		resp, err := http.Get(r.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not ready: %s", body)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The totals of an execution survive a restart in the middle, and one trip is published once by two copies and after further
// restarts.
func TestTripsOnceAcrossRestartsAndCopies(t *testing.T) {
	b := startBroker(t)
	first := b.start()
	first.ready(t)
	b.spend("loop", 0, 4)
	b.spend("calm", 100, 2)
	b.spend("marker", 200, 6) // trips: so what came before it in this partition is handled
	b.ended("marker")
	first.halt(t)

	second, third := b.start(), b.start()
	second.ready(t)
	third.ready(t)
	b.shared(2)
	b.spend("loop", 4, 8)
	b.put(decision(t, "acme", "refused", true), decision(t, "acme", "not", false))
	out := b.ended("loop", "marker", "refused")
	b.informed(third)
	second.halt(t)
	b.spend("loop", 12, 3)
	b.put(decision(t, "acme", "loop", true))
	third.halt(t)

	b.start().ready(t)
	b.spend("later", 300, 6)
	out = b.ended("later", "loop", "marker", "refused")
	for id, want := range map[string]string{"loop": "cost 2026-11-30T10:00:05Z", "refused": "admission 2026-11-30T10:00:00Z", "marker": "cost 2026-11-30T10:03:25Z"} {
		if got := out.events[root{"acme", id}]; len(got) != 1 || got[0] != want {
			t.Errorf("%s ended as %v, want %s", id, got, want)
		}
	}
}

func TestCatalogz(t *testing.T) {
	b := startBroker(t)
	r := b.start()
	r.ready(t)
	body := r.get(t, "/catalogz")
	if want := fmt.Sprintf(`"%s":{"0":1}`, topics.CatalogTenants.Name()); !strings.Contains(body, want) {
		t.Errorf("%s lacks %s", body, want)
	}
}

func TestNewNeedsASecret(t *testing.T) {
	cfg := Config{Settings: service.Settings{Kafka: "kafka://127.0.0.1:1", LogLevel: "info", LogFormat: "json"}, MaxRootAge: time.Hour, MaxExecutions: 1, Session: time.Second}
	if _, err := New(cfg, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: time.Now}); err == nil {
		t.Error("events that nobody would believe")
	}
}
