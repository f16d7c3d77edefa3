package service_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/pkg/testkit"
)

// limit is how long any condition may take before a test fails; nothing waits that long when all is well.
const limit = 2 * time.Minute

var topic = bus.NewTopic(bus.TopicSpec{Name: "t", Partitions: 2, Cleanup: "delete", RetentionMs: -1, MaxRecordBytes: 1000})

// A process consumes nothing before its topic is there, is ready from then on, hands records over, and ends in order.
func TestProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	settings := service.Settings{Kafka: testkit.Kafka(t), LogLevel: "info", LogFormat: "json"}
	if err := settings.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := service.New("test", settings, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: time.Now, Listener: l}, topic)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	c, err := s.Conn.Consumer(bus.ConsumerConfig{Group: "g", Topics: []bus.Topic{topic}}, func(_ context.Context, _ bus.Claim, batch []bus.Record) error {
		got <- string(batch[0].Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Add("consumer", lifecycle.Consumers, func(ctx context.Context) error { return s.Consume(ctx, c, topic) })
	followed := s.Follow(topic, func(bus.Record) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	if code, body := get(t, "http://"+l.Addr().String()+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("without its topic: %d %s", code, body)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.Admin.EnsureTopics(within, []bus.Topic{topic}, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Producer.Produce(within, bus.NewRecord(topic, "acme", []byte("acme"), []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	select {
	case value := <-got:
		if value != "hello" {
			t.Errorf("consumed %q", value)
		}
	case <-within.Done():
		t.Fatal("nothing was consumed")
	}
	if err := followed.WaitReady(within); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, "http://"+l.Addr().String()+"/readyz"); code != http.StatusOK {
		t.Errorf("with its topic: %d %s", code, body)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(limit):
		t.Error("did not end")
	}
}

// Goal: a process whose Kafka is away says so, by name and for how long, and is ready again when it is back. Method: the broker goes
// and comes back at its port; the test moves the clock, so that nobody waits.
func TestKafkaFallsSilent(t *testing.T) {
	port, err := part.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	address, broker := testkit.KafkaCluster(t, kfake.Ports(port), kfake.DataDir(dir))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	settings := service.Settings{Kafka: address, LogLevel: "info", LogFormat: "json"}
	s, err := service.New("test", settings, service.Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: now, Listener: l}, topic)
	if err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(within) }()
	if !s.Kafka.Wait(within, s.Admin.Ping) {
		t.Fatal("Kafka never answered")
	}
	becomes := func(want int, says string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ; <-tick.C {
			if want != http.StatusOK {
				ahead.Add(int64(time.Minute)) // whenever the last answer came
			}
			code, body := get(t, "http://"+l.Addr().String()+"/readyz")
			if code == want && strings.Contains(body, says) {
				return
			}
			if within.Err() != nil {
				t.Fatalf("never %d %s: %d %s", want, says, code, body)
			}
		}
	}
	becomes(http.StatusOK, "")
	broker.Close()
	becomes(http.StatusServiceUnavailable, "0s: kafka: ") // silent for minutes, and why
	if _, body := get(t, "http://"+l.Addr().String()+"/metrics"); !strings.Contains(body, `weir_dependency_silent_seconds{dependency="kafka"}`) {
		t.Errorf("no metric says so:\n%s", body)
	}
	testkit.KafkaCluster(t, kfake.Ports(port), kfake.DataDir(dir))
	becomes(http.StatusOK, "")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is wrong with the settings is told by flag, all at once.
func TestSettingsAreJudged(t *testing.T) {
	err := service.Settings{Kafka: "http://x", LogLevel: "loud", LogFormat: "json"}.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Errorf("%v", err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
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
