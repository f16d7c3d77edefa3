//go:build integration

package costattributor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// rig is a Kafka with catalogs and a migrated ClickHouse database.
type rig struct {
	t        *testing.T
	kafka    string
	cluster  *kfake.Cluster
	database string
	table    *clickhouse.Client
	conn     *bus.Conn
	producer *bus.Producer
}

func quietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
}

func newRig(t *testing.T, database string) *rig {
	t.Helper()
	r := &rig{t: t, database: database}
	r.kafka, r.cluster = testkit.KafkaCluster(t)
	testkit.Patient(r.cluster)
	r.table = r.migrated(database)
	r.conn = must[*bus.Conn](t)(bus.Connect(bus.Options{Address: must[bus.Address](t)(bus.ParseAddress(r.kafka)), ClientID: "test", Log: quietLog(), Metrics: prometheus.NewRegistry(), Now: time.Now}))
	admin := must[*bus.Admin](t)(r.conn.Admin())
	defer admin.Close()
	if err := admin.EnsureTopics(t.Context(), topics.All, 1); err != nil {
		t.Fatal(err)
	}
	r.producer = must[*bus.Producer](t)(r.conn.Producer(bus.ProducerConfig{}, topics.All...))
	t.Cleanup(func() { r.producer.Close(context.Background()) })
	price := must[[]byte](t)(catalog.EncodePrices(gpt4o(t)))
	r.produce(bus.NewRecord(topics.CatalogPrices, "openai/gpt-4o", []byte("openai/gpt-4o"), price))
	for _, id := range []string{"acme", "other", "third"} {
		value := must[[]byte](t)(catalog.EncodeTenant(tenant.History{ID: id, Versions: []tenant.Contract{contract(t)}}))
		r.produce(bus.NewRecord(topics.CatalogTenants, id, []byte(id), value))
	}
	return r
}

func (r *rig) migrated(database string) *clickhouse.Client {
	r.t.Helper()
	c := must[*clickhouse.Client](r.t)(clickhouse.Open(database))
	r.t.Cleanup(func() { _ = c.Close() })
	if err := c.CreateDatabase(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if _, err := migrate.Statements(r.t.Context(), c, migrate.ClickHouseRecords, os.DirFS("../../migrations/clickhouse")); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) produce(records ...bus.Record) {
	r.t.Helper()
	if err := r.producer.Produce(r.t.Context(), records...); err != nil {
		r.t.Fatal(err)
	}
}

// start runs a copy of the service; the returned function ends it and waits.
func (r *rig) start() (stop func()) {
	r.t.Helper()
	listener := must[net.Listener](r.t)(net.Listen("tcp", "127.0.0.1:0"))
	s := must[*service.Process](r.t)(New(Config{Settings: service.Settings{Kafka: r.kafka, LogLevel: "error", LogFormat: "text"}, ClickHouse: r.database, Secret: secret(r.t), TrustTopic: true, MaxIDs: 100_000,
		Batch: 7, SinkBatch: 16, SinkLinger: 50 * time.Millisecond, Session: 6 * time.Second},
		service.Deps{Log: quietLog(), Registry: prometheus.NewRegistry(), Now: time.Now, Listener: listener}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("service: %v", err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) sql(statement string) string {
	rows, err := r.table.Query(context.WithoutCancel(r.t.Context()), statement)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, row := range rows {
		out = append(out, strings.Join(row, " "))
	}
	return strings.Join(out, "; ")
}

const sums = "SELECT count(), uniqExact(id), toString(sum(raw_cost_usd)), toString(sum(markup_cost_usd)), countIf(raw_cost_usd IS NULL) FROM agent_cost_ledger"

// await waits until get gives want.
func (r *rig) await(what string, get func() string, want string) {
	r.t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		got := get()
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
}

func (r *rig) awaitLedger(want string) {
	r.t.Helper()
	r.await("ledger", func() string { return r.sql(sums) }, want)
}

// settled sends a marker to every tenant, after everything else, and returns how many rows there must be once they are
// in the ledger. Partitions are in order, so nothing that came before can change the sums later.
func (r *rig) settled(rows int) string {
	for _, id := range []string{"acme", "other", "third"} {
		ev := call("marker")
		ev.Subject, ev.Data.Usage, ev.Data.Status = id, nil, "FAILED"
		r.produce(bus.NewRecord(topics.UsageEvents, id, []byte(id), usageevent.Encode(ev)))
	}
	return fmt.Sprint(rows + 3)
}

// calls are n events of $0.0035 each, of three tenants over two months.
func calls(prefix string, n int) []bus.Record {
	var out []bus.Record
	for i := range n {
		ev := call(fmt.Sprintf("%s-%d", prefix, i))
		ev.Subject = []string{"acme", "other", "third"}[i%3]
		if i%5 == 0 {
			ev.Time = ev.Time.AddDate(0, -1, 0)
		}
		out = append(out, bus.NewRecord(topics.UsageEvents, ev.Subject, []byte(ev.Subject), usageevent.Encode(ev)))
	}
	return out
}

// astray moves records into the wrong partitions, as a client with another hash would.
func astray(records []bus.Record) []bus.Record {
	out := slices.Clone(records)
	for i := range out {
		out[i].Partition = (out[i].Partition + 1) % int32(topics.UsageEvents.Partitions())
	}
	return out
}

// deadLetters counts them by reason, and finds the one with these bytes.
func (r *rig) deadLetters(value []byte) (string, bool) {
	reasons, found := map[string]int{}, false
	for p := range int32(topics.UsageDeadletter.Partitions()) {
		err := r.conn.ReadPartition(context.WithoutCancel(r.t.Context()), topics.UsageDeadletter, p, -1, -1, func(rec bus.Record) error {
			reason, _ := rec.Header(headerReason)
			reasons[string(reason)]++
			found = found || bytes.Equal(rec.Value, value)
			return nil
		})
		if err != nil {
			return err.Error(), false
		}
	}
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		out = append(out, fmt.Sprint(reason, " ", reasons[reason]))
	}
	return strings.Join(out, ", "), found
}

// Duplicates in the same partition, in another one, and after a restart; two copies; poison of several kinds.
func TestEndToEnd(t *testing.T) {
	r := newRig(t, testkit.ClickHouse(t))
	events := calls("a", 60)
	r.produce(events...)
	r.produce(events[:30]...)
	stop := r.start()
	stopSecond := r.start()
	r.produce(astray(events[20:50])...)
	poison := []byte("\x00 not an event")
	conflict := call("a-0")
	conflict.Data.Model = "gpt-99"
	unknown, unpriced := call("u"), call("p")
	unknown.Subject, unpriced.Data.Model = "nobody", "gpt-99"
	for _, v := range [][]byte{poison, usageevent.Encode(conflict), usageevent.Encode(unknown), usageevent.Encode(unpriced),
		[]byte(`{"specversion":"1.0","id":"None","source":"s","type":"weir.usage.v1","subject":"acme","data":{}}`)} {
		r.produce(bus.NewRecord(topics.UsageEvents, "acme", []byte("acme"), v))
	}
	r.awaitLedger("61 61 0.21 0.252 1")
	stop()
	stopSecond()
	stop = r.start()
	r.produce(events...) // all again, after a restart
	r.produce(astray(events[:10])...)
	want := r.settled(61)
	r.await("rows", func() string { return r.sql("SELECT toString(count()) FROM agent_cost_ledger") }, want)
	// Two of the reasons are of acme's own partition, unknown_tenant of nobody's: it was moved there first. No row tells of that
	// partition, so its dead letter is waited for while there is somebody who writes it.
	r.await("dead letters", func() string { got, _ := r.deadLetters(poison); return got }, "conflict 1, malformed 1, no_id 1, unknown_tenant 1")
	stop()
	if got := r.sql(sums); got != "64 64 0.21 0.252 1" {
		t.Errorf("after everything was sent again: %s", got)
	}
	if _, found := r.deadLetters(poison); !found {
		t.Error("the dead letter does not have the original bytes")
	}
	if got := r.sql("SELECT toString(sum(raw_cost_usd)), toString(sum(unpriced)) FROM bill"); got != "0.21 1" {
		t.Errorf("bill: %s", got)
	}
	r.replay()
}

// replay consumes the journal from zero into a second database: the rows are equal, column by column.
func (r *rig) replay() {
	r.t.Helper()
	second := r.migrated(testkit.ClickHouse(r.t))
	sink := must[*clickhouse.LedgerSink](r.t)(clickhouse.NewLedgerSink(second, r.conn, prometheus.NewRegistry()))
	cfg := sink.ConsumerConfig(5, 10*time.Millisecond)
	cfg.Group = "replay"
	consumer := must[*bus.Consumer](r.t)(r.conn.Consumer(cfg, sink.Handle))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	const all = "SELECT * FROM agent_cost_ledger ORDER BY kafka_partition, kafka_offset"
	want := r.sql(all)
	r.await("second database", func() string {
		rows, err := second.Query(context.WithoutCancel(r.t.Context()), all)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, row := range rows {
			out = append(out, strings.Join(row, " "))
		}
		return strings.Join(out, "; ")
	}, want)
	cancel()
	if err := <-ended; err != nil {
		r.t.Error(err)
	}
}

// Commits are lost: entries and rows are written, the offsets are not; then the process ends. With and without the
// intents of the sink, so it dies between intent and insert, and between insert and commit.
func TestLostCommits(t *testing.T) {
	for _, keepIntents := range []bool{true, false} {
		t.Run(fmt.Sprint("intents kept ", keepIntents), func(t *testing.T) {
			r := newRig(t, testkit.ClickHouse(t))
			var lose atomic.Bool
			r.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				q := req.(*kmsg.OffsetCommitRequest)
				intent := q.Topics[0].Partitions[0].Metadata != nil && *q.Topics[0].Partitions[0].Metadata != ""
				if !lose.Load() || keepIntents && intent {
					return nil, nil, false
				}
				return nil, fmt.Errorf("lost"), true
			})
			r.produce(calls("a", 40)...)
			stop := r.start()
			r.awaitLedger("40 40 0.14 0.168 0")
			lose.Store(true)
			r.produce(calls("b", 40)...)
			if keepIntents {
				// Each partition stops at the commit of its first batch.
				r.await("rows", func() string { return r.sql("SELECT count() > 40 FROM agent_cost_ledger") }, "1")
			} else {
				r.await("journal", func() string { return fmt.Sprint(r.journalEnd() > 40) }, "true")
			}
			stop()
			lose.Store(false)
			stop = r.start()
			want := r.settled(80)
			r.await("rows", func() string { return r.sql("SELECT toString(count()) FROM agent_cost_ledger") }, want)
			stop()
			if got := r.sql(sums); got != "83 83 0.28 0.336 0" {
				t.Errorf("after the crash: %s", got)
			}
		})
	}
}

func (r *rig) journalEnd() (n int64) {
	admin := must[*bus.Admin](r.t)(r.conn.Admin())
	defer admin.Close()
	for _, end := range must[map[int32]int64](r.t)(admin.EndOffsets(context.WithoutCancel(r.t.Context()), topics.LedgerEntries)) {
		n += end
	}
	return n
}

// ClickHouse is killed under load: the journal goes on, nothing is lost, and the rows come when it is back.
func TestClickHouseDown(t *testing.T) {
	dir := t.TempDir()
	server := testkit.ClickHouseServer(t, part.Config{Dir: dir})
	r := newRig(t, server.Address+"/weir")
	stop := r.start()
	r.produce(calls("a", 20)...)
	r.awaitLedger("20 20 0.07 0.084 0")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	r.produce(calls("b", 20)...)
	r.await("journal", func() string { return fmt.Sprint(r.journalEnd()) }, "40")
	u := must[*url.URL](t)(url.Parse(server.Address))
	testkit.ClickHouseServer(t, part.Config{Dir: dir, Port: must[int](t)(strconv.Atoi(u.Port()))})
	r.awaitLedger("40 40 0.14 0.168 0")
	stop()
}
