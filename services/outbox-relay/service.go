package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
)

// shutdownDeadline bounds the whole shutdown; the batch's own grace is below it.
const shutdownDeadline = 25 * time.Second

// Deps is what comes from outside. All fields but Listener are required.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	// Listener overrides Config.HTTP, for tests.
	Listener net.Listener
}

// Service is one relay process.
type Service struct {
	cfg      Config
	deps     Deps
	relay    *relay
	admin    *bus.Admin
	producer *bus.Producer
	kafka    *lifecycle.Dependency
}

// New builds the relay. It dials nothing, so dependencies may come up later.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	address, err := bus.ParseAddress(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "outbox-relay", Log: deps.Log, Metrics: deps.Registry, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("outbox-relay: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, kafka: lifecycle.NewDependency("Kafka", deps.Log)}
	if s.admin, err = conn.Admin(); err != nil {
		return nil, err
	}
	writes := []bus.Topic{topics.UsageEvents} // topics/*.yaml: the topics with writer outbox-relay
	if s.producer, err = conn.Producer(bus.ProducerConfig{}, writes...); err != nil {
		return nil, err
	}
	s.relay = &relay{cfg: cfg, log: deps.Log, metrics: m, now: deps.Now, produce: s.producer.Produce, writes: writes, byDefault: topics.UsageEvents}
	return s, nil
}

// Run works until ctx ends or a signal comes, then stops in order: the relay (which finishes the batch in flight and
// lets the lead go), the producer, the measuring, the HTTP server.
func (s *Service) Run(ctx context.Context) error {
	listener := s.deps.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", s.cfg.HTTP); err != nil {
			return fmt.Errorf("outbox-relay: listen: %w", err)
		}
	}
	server := obs.NewServer(s.deps.Registry)
	server.AddCheck("postgres", func(context.Context) error { return seen(&s.relay.standing) })
	server.AddCheck("kafka", s.kafka.Check)

	g := lifecycle.New(s.deps.Log, shutdownDeadline)
	g.Add("relay", lifecycle.Consumers, s.relayParts)
	g.Add("producer", lifecycle.Producers, func(ctx context.Context) error {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
		defer cancel()
		s.admin.Close()
		return s.producer.Close(closing)
	})
	g.Add("measure", lifecycle.Stores, s.relay.measure)
	g.Add("http", lifecycle.Observe, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return g.Run(ctx)
}

// relayParts waits until the topics are there with the declared number of partitions, since a key in a wrong partition
// is an order broken for ever, and then relays.
func (s *Service) relayParts(ctx context.Context) error {
	if !s.kafka.Wait(ctx, func(ctx context.Context) error {
		err := s.admin.CheckPartitions(ctx, s.relay.writes...)
		if err != nil {
			s.relay.metrics.failures.WithLabelValues(onKafka).Inc()
		}
		return err
	}) {
		return nil
	}
	return s.relay.run(ctx)
}

func seen(b *atomic.Bool) error {
	if !b.Load() {
		return errors.New("has not answered yet")
	}
	return nil
}
