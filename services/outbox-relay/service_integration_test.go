//go:build integration

package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
)

// running is a whole service in this process.
type running struct {
	t    *testing.T
	url  string
	stop context.CancelFunc
	end  chan error
}

func startService(t *testing.T, cfg Config) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: obs.NewRegistry(), Now: time.Now, Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, url: "http://" + l.Addr().String(), stop: cancel, end: make(chan error, 1)}
	go func() { r.end <- s.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *running) shutdown() error {
	r.stop()
	select {
	case err := <-r.end:
		return err
	case <-time.After(patience): // past its own deadline it ends with an error
		return errors.New("it runs on after the order to stop")
	}
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (r *running) metric(name string) string {
	_, body := r.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestKafkaAway: Kafka goes and comes back in the middle. Meanwhile commits go on, the figures show backlog and errors,
// the relay keeps one batch in memory; afterwards everything is there, in order.
func TestKafkaAway(t *testing.T) {
	url, b := database(t), newBroker(t)
	w, r := connect(t, url), startService(t, testConfig(url, b.url()))
	until(t, "ready", func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	n := int64(0)
	some := func(count int) {
		for range count {
			n++
			write(t, w, event("acme", n))
		}
	}
	some(20)
	until(t, "first rows published", func() bool { return backlog(t, url) == 0 })
	b.stop()
	some(300)
	until(t, "the backlog is shown", func() bool { return strings.HasPrefix(r.metric("weir_outbox_backlog_rows"), "3") })
	until(t, "its age is shown", func() bool { age := r.metric("weir_outbox_oldest_seconds"); return age != "" && age != "0" })
	if backlog(t, url) < 300 {
		t.Error("rows count as published while Kafka is away")
	}
	b.start()
	until(t, "the rest published", func() bool { return backlog(t, url) == 0 })
	some(5)
	until(t, "later rows published", func() bool { return backlog(t, url) == 0 })
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	firsts, _ := b.published()
	if len(firsts["acme"]) != int(n) {
		t.Fatalf("%d published of %d", len(firsts["acme"]), n)
	}
	for i, id := range firsts["acme"] {
		if id != fmt.Sprint(i+1) {
			t.Fatalf("place %d has %s", i+1, id)
		}
	}
}

// TestRestartAndStandBy: a second copy stands by, takes over when the first stops, and publishes nothing again after an
// orderly stop; the table is empty in the end.
func TestRestartAndStandBy(t *testing.T) {
	url, b := database(t), newBroker(t)
	w := connect(t, url)
	write(t, w, event("acme", 1))
	first := startService(t, testConfig(url, b.url()))
	until(t, "published by the first", func() bool { return backlog(t, url) == 0 })
	second := startService(t, testConfig(url, b.url()))
	until(t, "second ready", func() bool { code, _ := second.get("/readyz"); return code == http.StatusOK })
	if first.metric("weir_outbox_leader") != "1" || second.metric("weir_outbox_leader") != "0" {
		t.Fatal("leader: first", first.metric("weir_outbox_leader"), "second", second.metric("weir_outbox_leader"))
	}
	if err := first.shutdown(); err != nil {
		t.Fatal(err)
	}
	write(t, w, event("acme", 2))
	until(t, "published by the second", func() bool { return backlog(t, url) == 0 })
	until(t, "slots empty", func() bool {
		var rows int
		if err := w.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows == 0
	})
	if err := second.shutdown(); err != nil {
		t.Fatal(err)
	}
	if firsts, total := b.published(); total != 2 || len(firsts["acme"]) != 2 {
		t.Fatalf("%d records: %v", total, firsts)
	}
}

// TestStartsBeforeItsDependencies: neither Kafka nor the table is there at the start.
func TestStartsBeforeItsDependencies(t *testing.T) {
	url, b := database(t), newBroker(t)
	w := connect(t, url)
	if _, err := w.Exec(t.Context(), "ALTER TABLE outbox_cursor RENAME TO not_yet"); err != nil {
		t.Fatal(err)
	}
	b.stop()
	r := startService(t, testConfig(url, b.url()))
	if code, body := r.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "kafka") {
		t.Fatalf("%d %s", code, body)
	}
	b.start()
	until(t, "kafka seen", func() bool { _, body := r.get("/readyz"); return !strings.Contains(body, "kafka") })
	if code, body := r.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "postgres") {
		t.Fatalf("%d %s", code, body)
	}
	if _, err := w.Exec(t.Context(), "ALTER TABLE not_yet RENAME TO outbox_cursor"); err != nil {
		t.Fatal(err)
	}
	write(t, w, event("acme", 1))
	until(t, "published", func() bool { return backlog(t, url) == 0 })
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
}

// TestStopWhileKafkaIsAway: the order to stop is obeyed within the grace, and the rows stay.
func TestStopWhileKafkaIsAway(t *testing.T) {
	url, b := database(t), newBroker(t)
	r := startService(t, testConfig(url, b.url()))
	until(t, "leading", func() bool { return r.metric("weir_outbox_leader") == "1" })
	b.stop()
	write(t, connect(t, url), event("acme", 1))
	until(t, "backlog shown", func() bool { return r.metric("weir_outbox_backlog_rows") == "1" })
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	if n := backlog(t, url); n != 1 {
		t.Fatalf("backlog %d", n)
	}
}

// TestParkedRowsDoNotBlock: rows that Kafka could never take are set aside and shown; those around them go out.
func TestParkedRowsDoNotBlock(t *testing.T) {
	url, b := database(t), newBroker(t)
	w := connect(t, url)
	write(t, w, event("acme", 1))
	for _, constraint := range []string{"payload DROP CONSTRAINT outbox_payload_bytes", "headers DROP CONSTRAINT outbox_headers_named"} { // rows from before them
		if _, err := w.Exec(t.Context(), "ALTER DOMAIN outbox_"+constraint); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers) VALUES ('other:1', 'tenant', 'other', 't', '1', '{"": "x"}')`); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"repeat('x', 1048576), NULL, NULL", "'', 'ledger.entries.v1', NULL", "'', NULL, 99"} {
		if _, err := w.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, topic, partition)
			SELECT 'bad', 'tenant', 'acme', 't', convert_to(p, 'UTF8'), topic::text, partition::int FROM (VALUES (`+bad+`)) v (p, topic, partition)`); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w, event("acme", 2))
	r := startService(t, testConfig(url, b.url()))
	until(t, "parked rows shown", func() bool { return r.metric("weir_outbox_parked_rows") == "3" })
	until(t, "published", func() bool { return backlog(t, url) == 0 })
	for _, reason := range []string{tooLarge, unknownTopic, badPartition} { // counted once the database has them
		until(t, reason+" counted", func() bool { return r.metric(`weir_outbox_parked_total{reason="`+reason+`"}`) == "1" })
	}
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	if firsts, total := b.published(); total != 3 || len(firsts["acme"]) != 2 || len(firsts["other"]) != 1 {
		t.Fatalf("%d records: %v", total, firsts)
	}
}

// TestPostgresKilled: the server is killed in the middle and comes back with what it had acknowledged; the relay
// reconnects by itself and publishes the rest.
func TestPostgresKilled(t *testing.T) {
	dir, b := t.TempDir(), newBroker(t)
	server := testkit.PostgresServer(t, part.Config{Dir: dir})
	address, err := url.Parse(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	w := connect(t, migrated(t, server.Address))
	r := startService(t, testConfig(server.Address, b.url()))
	for n := range int64(50) {
		write(t, w, event("acme", n+1))
	}
	until(t, "some published", func() bool { return r.metric(`weir_outbox_published_total{topic="usage.events.v1"}`) != "" })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss is noticed", func() bool { return r.metric("weir_outbox_leader") == "0" })
	testkit.PostgresServer(t, part.Config{Dir: dir, Port: port})
	write(t, connect(t, server.Address), event("acme", 51))
	until(t, "the rest published", func() bool { return backlog(t, server.Address) == 0 })
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	firsts, _ := b.published()
	for i, id := range firsts["acme"] {
		if id != fmt.Sprint(i+1) {
			t.Fatalf("place %d has %s", i+1, id)
		}
	}
	if len(firsts["acme"]) != 51 {
		t.Fatalf("%d published", len(firsts["acme"]))
	}
}

// TestRefusesForeignCursor: on a restored dump the process ends with an error that says what to do.
func TestRefusesForeignCursor(t *testing.T) {
	url, b := database(t), newBroker(t)
	if _, err := connect(t, url).Exec(t.Context(), "INSERT INTO outbox_cursor (system_identifier, tick, published) VALUES (1, 7, '800:800:')"); err != nil {
		t.Fatal(err)
	}
	r := startService(t, testConfig(url, b.url()))
	select {
	case err := <-r.end:
		if !errors.Is(err, outbox.ErrForeign) || !strings.Contains(err.Error(), "outbox_adopt") {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it runs on")
	}
}
