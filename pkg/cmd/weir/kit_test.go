package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/testkit"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// answer is what one run of the command said.
type answer struct {
	code     int
	out, err string
}

// weir runs the command in this process, in an empty folder and without the caller's WEIR_ variables.
func weir(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	app := newApp()
	if os.Getenv("WEIR_POSTGRES") == "" {
		app.lead = localLead
	}
	code := run(ctx, app, args, strings.NewReader(stdin), &out, &errOut)
	return answer{code, out.String(), errOut.String()}
}

// localLead is the right to change the catalog of tenants among the commands of this process: no server is needed.
func localLead(ctx context.Context) (lead, error) {
	select {
	case oneLead <- struct{}{}:
		return inProcess{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var oneLead = make(chan struct{}, 1)

type inProcess struct{}

func (inProcess) Check(context.Context) error { return nil }
func (inProcess) Close(context.Context) error { <-oneLead; return nil }

// alone gives the test an empty working folder without an instance.
func alone(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"WEIR_DIR", "WEIR_KAFKA", "WEIR_REDIS", "WEIR_POSTGRES", "WEIR_CLICKHOUSE"} {
		t.Setenv(name, "")
	}
}

// broker gives the test a broker with Weir's topics, and the command its address.
func broker(t *testing.T) *bus.Conn {
	t.Helper()
	alone(t)
	address := testkit.Kafka(t)
	t.Setenv("WEIR_KAFKA", address)
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
	return conn
}

// produce writes records as another process would.
func produce(t *testing.T, conn *bus.Conn, records ...bus.Record) {
	t.Helper()
	p, err := conn.Producer(bus.ProducerConfig{}, topics.All...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.WithoutCancel(t.Context()))
	if err := p.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

// file writes a file into the test's folder and returns its name.
func file(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// decodeJSON reads an answer with --json.
func decodeJSON[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(a.out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %q (exit %d, %s)", err, a.out, a.code, a.err)
	}
	return v
}

// golden compares with testdata, or writes it. root is this package's folder: tests change theirs.
func golden(t *testing.T, root, name, got string) {
	t.Helper()
	testkit.Golden(t, *update, filepath.Join(root, "testdata", name), got)
}

// here is this package's folder.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
