package breaker

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
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
)

// The consumer groups, one per topic: partitions of two topics in one group would not move together.
const (
	JournalGroup   = "weir.breaker-journal"
	DecisionsGroup = "weir.breaker-decisions"
)

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

// Service is one breaker process.
type Service struct {
	cfg                Config
	deps               Deps
	contracts, revoked *bus.Follower
	journal, decisions *bus.Consumer
	admin              *bus.Admin
	producer           *bus.Producer
	kafka              *lifecycle.Dependency
}

// New builds the service. It dials nothing, so dependencies may come up later.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Secret.IsZero() {
		return nil, errors.New("breaker: no HMAC secret: nobody would believe its events")
	}
	address, err := bus.ParseAddress(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "breaker", Log: deps.Log, Metrics: deps.Registry, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("breaker: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, kafka: lifecycle.NewDependency("Kafka", deps.Log)}
	if s.admin, err = conn.Admin(); err != nil {
		return nil, err
	}
	if s.producer, err = conn.Producer(bus.ProducerConfig{}, topics.UsageEvents, topics.ExecutionsRevoked); err != nil {
		return nil, err
	}
	return s, s.build(conn, m)
}

// build connects the parts: two followers feed what two consumers decide with.
func (s *Service) build(conn *bus.Conn, m *metrics) error {
	contracts := catalog.NewTenants(func(topic, key string, err error) {
		m.catalog.Inc()
		s.deps.Log.Error("contract passed over", obs.Topic, topic, obs.TenantID, key, "error", err)
	})
	ended := &revoked{log: s.deps.Log, metrics: m, secret: s.cfg.Secret, produce: s.producer.Produce, roots: map[string]struct{}{}}
	s.contracts, s.revoked = conn.Follow(topics.CatalogTenants, contracts.Apply), conn.Follow(topics.ExecutionsRevoked, ended.apply)
	journal := &journalReader{
		log: s.deps.Log, metrics: m, reader: conn, since: s.admin.OffsetsSince, now: s.deps.Now, revoked: ended,
		loaded: func(ctx context.Context) error {
			return errors.Join(s.contracts.WaitReady(ctx), s.revoked.WaitReady(ctx))
		},
		limits: func(id string, at time.Time) tenant.Execution {
			c, _ := contracts.At(id, at) // no such tenant: no limits, and nothing that it could have spent
			return c.Execution
		},
		room: &room{bound: int64(s.cfg.MaxExecutions)}, maxAge: s.cfg.MaxRootAge, books: map[int32]*book{},
	}
	decisions := &decisionReader{log: s.deps.Log, metrics: m, loaded: s.revoked.WaitReady, revoked: ended}
	var err error
	s.journal, err = conn.Consumer(bus.ConsumerConfig{Group: JournalGroup, Topics: []bus.Topic{topics.LedgerEntries}, SessionTimeout: s.cfg.Session,
		OnAssigned: journal.assigned, OnRevoked: journal.release, OnLost: journal.release}, journal.handle)
	if err != nil {
		return err
	}
	s.decisions, err = conn.Consumer(bus.ConsumerConfig{Group: DecisionsGroup, Topics: []bus.Topic{topics.AdmissionDecisions},
		SessionTimeout: s.cfg.Session, OnAssigned: decisions.assigned}, decisions.handle)
	return err
}

// Run works until ctx ends or a signal comes, then stops in order: both consumers (which finish the batch in flight and
// commit), the producer, the followers, the HTTP server.
func (s *Service) Run(ctx context.Context) error {
	listener := s.deps.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", s.cfg.HTTP); err != nil {
			return fmt.Errorf("breaker: listen: %w", err)
		}
	}
	server := obs.NewServer(s.deps.Registry)
	server.AddCheck("kafka", s.kafka.Check)
	for _, f := range []*bus.Follower{s.contracts, s.revoked} {
		server.AddCatalog(f.Topic().Name(), f.Ready, f.Offsets)
	}

	g := lifecycle.New(s.deps.Log, shutdownDeadline)
	g.Add("journal", lifecycle.Consumers, func(ctx context.Context) error { return s.consume(ctx, s.journal) })
	g.Add("decisions", lifecycle.Consumers, func(ctx context.Context) error { return s.consume(ctx, s.decisions) })
	g.Add("producer", lifecycle.Producers, func(ctx context.Context) error {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.admin.Close()
		return s.producer.Close(closing)
	})
	g.Add("contracts", lifecycle.Stores, s.contracts.Run)
	g.Add("revocations", lifecycle.Stores, s.revoked.Run)
	g.Add("http", lifecycle.Observe, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	return g.Run(ctx)
}

// consume waits until the topics are there with the declared number of partitions, since a tenant's record in another
// partition would be out of its order, and then consumes.
func (s *Service) consume(ctx context.Context, c *bus.Consumer) error {
	if !s.kafka.Wait(ctx, func(ctx context.Context) error {
		return s.admin.CheckPartitions(ctx, topics.LedgerEntries, topics.AdmissionDecisions, topics.UsageEvents, topics.ExecutionsRevoked, topics.CatalogTenants)
	}) {
		return nil
	}
	return c.Run(ctx)
}
