package budgetaggregator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
)

// The consumer groups.
const (
	Group     = "weir.budget-aggregator"
	SinkGroup = "weir.window-sink"
)

// shutdownDeadline bounds the whole shutdown; a batch in flight gets the bus' grace, which is below it.
const shutdownDeadline = 25 * time.Second

// Deps is what comes from outside. Log, Registry and Now are required.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	// Listener overrides Config.HTTP, and Table Config.ClickHouse, for tests.
	Listener net.Listener
	Table    WindowTable
}

// Service is one aggregator process.
type Service struct {
	cfg            Config
	deps           Deps
	aggregator     *aggregator
	journal, sink  *bus.Consumer
	admin          *bus.Admin
	producer       *bus.Producer
	table          WindowTable
	closeTable     func() error
	kafka, columns *lifecycle.Dependency
}

// New builds the service. It dials nothing, so dependencies may come up later.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	address, err := bus.ParseAddress(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "budget-aggregator", Log: deps.Log, Metrics: deps.Registry, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("budget-aggregator: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, kafka: lifecycle.NewDependency("Kafka", deps.Log), columns: lifecycle.NewDependency("ClickHouse", deps.Log), table: deps.Table, closeTable: func() error { return nil }}
	if s.table == nil {
		client, err := clickhouse.Open(cfg.ClickHouse)
		if err != nil {
			return nil, err
		}
		s.table, s.closeTable = client, client.Close
	}
	if s.admin, err = conn.Admin(); err != nil {
		return nil, err
	}
	if s.producer, err = conn.Producer(bus.ProducerConfig{}, topics.BudgetWindows); err != nil {
		return nil, err
	}
	s.aggregator = &aggregator{log: deps.Log, metrics: m, reader: conn, produce: s.producer.Produce,
		room: &room{bound: int64(cfg.MaxWindows)}, every: cfg.ReadAlong, books: map[int32]*owned{}}
	if s.journal, err = conn.Consumer(s.journalConfig(), s.aggregator.handle); err != nil {
		return nil, err
	}
	s.sink, err = conn.Consumer(bus.ConsumerConfig{Group: SinkGroup, Topics: []bus.Topic{topics.BudgetWindows}, MaxBatch: cfg.SinkBatch,
		Linger: cfg.SinkLinger, SessionTimeout: cfg.Session}, (&sink{log: deps.Log, metrics: m, table: s.table}).handle)
	return s, err
}

func (s *Service) journalConfig() bus.ConsumerConfig {
	return bus.ConsumerConfig{Group: Group, Topics: []bus.Topic{topics.LedgerEntries}, SessionTimeout: s.cfg.Session,
		OnAssigned: s.aggregator.assigned, OnRevoked: s.aggregator.release, OnLost: s.aggregator.release}
}

// Run works until ctx ends or a signal comes, then stops in order: both consumers (which finish the batch in flight and
// commit), the producer, ClickHouse, the HTTP server.
func (s *Service) Run(ctx context.Context) error {
	listener := s.deps.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", s.cfg.HTTP); err != nil {
			return fmt.Errorf("budget-aggregator: listen: %w", err)
		}
	}
	server := obs.NewServer(s.deps.Registry)
	server.AddCheck("kafka", s.kafka.Check)
	server.AddCheck("clickhouse", s.columns.Check)

	g := lifecycle.New(s.deps.Log, shutdownDeadline)
	g.Add("journal", lifecycle.Consumers, func(ctx context.Context) error { return s.consume(ctx, s.journal) })
	g.Add("window-sink", lifecycle.Consumers, func(ctx context.Context) error { return s.consume(ctx, s.sink) })
	g.Add("producer", lifecycle.Producers, func(ctx context.Context) error {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.admin.Close()
		return s.producer.Close(closing)
	})
	g.Add("clickhouse", lifecycle.Stores, func(ctx context.Context) error {
		s.columns.Wait(ctx, s.table.Ping)
		<-ctx.Done()
		return s.closeTable()
	})
	g.Add("http", lifecycle.Observe, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return g.Run(ctx)
}

// consume waits until the topics are there with the declared number of partitions, since a tenant in another partition
// is a total in two places, and then consumes.
func (s *Service) consume(ctx context.Context, c *bus.Consumer) error {
	if !s.kafka.Wait(ctx, func(ctx context.Context) error {
		return s.admin.CheckPartitions(ctx, topics.LedgerEntries, topics.BudgetWindows)
	}) {
		return nil
	}
	return c.Run(ctx)
}
