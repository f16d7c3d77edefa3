package costattributor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
)

// Group is the consumer group of usage.events.v1; the sink's is clickhouse.SinkGroup.
const Group = "weir.cost-attributor"

// shutdownDeadline bounds the whole shutdown; a batch in flight gets the bus' grace, which is below it.
const shutdownDeadline = 25 * time.Second

// Deps is what comes from outside. Log, Registry and Now are required.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	// Listener overrides Config.HTTP, for tests.
	Listener net.Listener
}

// Service is one attributor process.
type Service struct {
	cfg           Config
	deps          Deps
	followers     []*bus.Follower
	events, sink  *bus.Consumer
	admin         *bus.Admin
	producer      *bus.Producer
	ledger        *clickhouse.Client
	kafka, tables *lifecycle.Dependency
}

// New builds the service. It dials nothing, so dependencies may come up later.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Secret.IsZero() {
		return nil, errors.New("cost-attributor: no HMAC secret: it could not tell admission from anybody else")
	}
	address, err := bus.ParseAddress(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "cost-attributor", Log: deps.Log, Metrics: deps.Registry, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("cost-attributor: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, kafka: lifecycle.NewDependency("Kafka", deps.Log), tables: lifecycle.NewDependency("ClickHouse", deps.Log)}
	if s.ledger, err = clickhouse.Open(cfg.ClickHouse); err != nil {
		return nil, err
	}
	if s.admin, err = conn.Admin(); err != nil {
		return nil, err
	}
	if s.producer, err = conn.Producer(bus.ProducerConfig{}, topics.LedgerEntries, topics.UsageDeadletter, topics.UsageEvents); err != nil {
		return nil, err
	}
	return s, s.build(conn, m)
}

// build connects the parts: three followers feed what the attributor decides with; the sink reads what it writes.
func (s *Service) build(conn *bus.Conn, m *metrics) error {
	bad := func(topic, key string, err error) {
		m.catalog.Inc()
		s.deps.Log.Error("catalog record refused; the last good value stays", obs.Topic, topic, "key", key, "error", err)
	}
	tenants, prices, keys := catalog.NewTenants(bad), catalog.NewPrices(bad), catalog.NewSigningKeys(bad)
	s.followers = []*bus.Follower{conn.Follow(topics.CatalogTenants, tenants.Apply), conn.Follow(topics.CatalogPrices, prices.Apply), conn.Follow(topics.ControlKeys, keys.Apply)}
	a := &attributor{
		log: s.deps.Log, metrics: m, reader: conn, produce: s.producer.Produce, loaded: s.loaded, maxIDs: s.cfg.MaxIDs, books: map[int32]*book{},
		verifier: verifier{secret: s.cfg.Secret, keys: keys.Get, trusted: s.cfg.TrustTopic},
		catalogs: catalogs{contract: tenants.At, book: prices.Book, zones: &catalog.Zones{}},
	}
	var err error
	s.events, err = conn.Consumer(bus.ConsumerConfig{Group: Group, Topics: []bus.Topic{topics.UsageEvents}, MaxBatch: s.cfg.Batch, SessionTimeout: s.cfg.Session,
		OnAssigned: a.assigned, OnRevoked: a.release, OnLost: a.release}, a.handle)
	if err != nil {
		return err
	}
	sink, err := clickhouse.NewLedgerSink(s.ledger, conn, s.deps.Registry)
	if err != nil {
		return err
	}
	sinkConfig := sink.ConsumerConfig(s.cfg.SinkBatch, s.cfg.SinkLinger)
	sinkConfig.SessionTimeout = s.cfg.Session
	s.sink, err = conn.Consumer(sinkConfig, sink.Handle)
	return err
}

// loaded waits until every catalog has been applied to where it ended at the start.
func (s *Service) loaded(ctx context.Context) error {
	for _, f := range s.followers {
		if err := f.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run works until ctx ends or a signal comes, then stops in order: both consumers (which finish the batch in flight and
// commit), the producer and the followers, ClickHouse, the HTTP server.
func (s *Service) Run(ctx context.Context) error {
	listener := s.deps.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", s.cfg.HTTP); err != nil {
			return fmt.Errorf("cost-attributor: listen: %w", err)
		}
	}
	server := obs.NewServer(s.deps.Registry)
	server.AddCheck("kafka", s.kafka.Check)
	server.AddCheck("clickhouse", s.tables.Check)
	for _, f := range s.followers {
		server.AddCatalog(f.Topic().Name(), f.Ready, f.Offsets)
	}
	if s.cfg.TrustTopic {
		s.deps.Log.Warn("unsigned events are trusted to name their tenant (-trust-topic)", obs.Topic, topics.UsageEvents.Name())
	}
	g := lifecycle.New(s.deps.Log, shutdownDeadline)
	g.Add("usage-events", lifecycle.Consumers, func(ctx context.Context) error { return s.consume(ctx, s.events) })
	g.Add("ledger-sink", lifecycle.Consumers, func(ctx context.Context) error {
		if !s.tables.Wait(ctx, s.ledger.Probe) {
			return nil
		}
		return s.consume(ctx, s.sink)
	})
	for _, f := range s.followers {
		g.Add(f.Topic().Name(), lifecycle.Producers, f.Run)
	}
	g.Add("producer", lifecycle.Producers, func(ctx context.Context) error {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.admin.Close()
		return s.producer.Close(closing)
	})
	g.Add("clickhouse", lifecycle.Stores, func(ctx context.Context) error {
		<-ctx.Done()
		return s.ledger.Close()
	})
	g.Add("http", lifecycle.Observe, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return g.Run(ctx)
}

// consume waits until the topics are there with the declared number of partitions, since the partition of a tenant
// depends on it, and then consumes.
func (s *Service) consume(ctx context.Context, c *bus.Consumer) error {
	if !s.kafka.Wait(ctx, func(ctx context.Context) error {
		return s.admin.CheckPartitions(ctx, topics.UsageEvents, topics.LedgerEntries, topics.UsageDeadletter)
	}) {
		return nil
	}
	return c.Run(ctx)
}
