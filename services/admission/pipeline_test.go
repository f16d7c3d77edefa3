//go:build integration

package admission

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/service"
	budgetaggregator "github.com/weir-project/weir/services/budget-aggregator"
	costattributor "github.com/weir-project/weir/services/cost-attributor"
	outboxrelay "github.com/weir-project/weir/services/outbox-relay"
)

// The services behind admission, real and in this process. Their sinks find no ClickHouse, which they must survive.

// running ends what it started before the stores below it go.
func (w *world) running(name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Logf("%s ended: %v", name, err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func flagsOf[C any](w *world, name string, define func(*config.Set) *C, args ...string) C {
	w.t.Helper()
	set := config.New(name, func(string) (string, bool) { return "", false })
	cfg := define(set)
	out := newTestWriter(w.t)
	if _, ok := set.Load(args, out, out); !ok {
		w.t.Fatal(name + ": flags")
	}
	return *cfg
}

// pipeline starts relay, attributor and aggregator.
func (w *world) pipeline() {
	w.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		w.must(err)
		return l
	}
	relay, err := outboxrelay.New(flagsOf(w, "outbox-relay", outboxrelay.Define, "-kafka", w.kafka, "-postgres", w.postgres, "-standby", "100ms"),
		service.Deps{Log: quiet, Registry: obs.NewRegistry(), Now: time.Now, Listener: listen()})
	w.must(err)
	w.running("relay", relay.Run)
	nobody := "http://127.0.0.1:1/weir"
	c := flagsOf(w, "cost-attributor", costattributor.Define, "-kafka", w.kafka, "-clickhouse", nobody, "-trust-topic", "-hmac-secret-file", secretFile(w))
	attributor, err := costattributor.New(c, service.Deps{Log: quiet, Registry: obs.NewRegistry(), Now: time.Now, Listener: listen()})
	w.must(err)
	w.running("attributor", attributor.Run)
	aggregator, err := budgetaggregator.New(flagsOf(w, "budget-aggregator", budgetaggregator.Define, "-kafka", w.kafka, "-clickhouse", nobody),
		service.Deps{Log: quiet, Registry: obs.NewRegistry(), Now: time.Now, Listener: listen()})
	w.must(err)
	w.running("aggregator", aggregator.Run)
}

func secretFile(w *world) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "hmac")
	w.must(os.WriteFile(path, []byte(strings.Repeat("s", 32)), 0o600))
	return path
}
