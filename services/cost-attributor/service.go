package costattributor

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/service"
)

// Group is the consumer group of usage.events.v1; the sink's is clickhouse.SinkGroup.
const Group = "weir.cost-attributor"

// New builds the service: three followers feed what the attributor decides with, and the sink reads what it writes. It dials
// nothing, so dependencies may come up later.
func New(cfg Config, deps service.Deps) (*service.Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Secret.IsZero() {
		return nil, errors.New("cost-attributor: no HMAC secret: it could not tell admission from anybody else")
	}
	s, err := service.New("cost-attributor", cfg.Settings, deps, topics.LedgerEntries, topics.UsageDeadletter, topics.UsageEvents)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("cost-attributor: %w", err)
	}
	if cfg.TrustTopic {
		deps.Log.Warn("unsigned events are trusted to name their tenant (-trust-topic)", obs.Topic, topics.UsageEvents.Name())
	}
	if err := addAttributor(s, cfg, deps, m); err != nil {
		return nil, err
	}
	return s, addSink(s, cfg, deps)
}

func addAttributor(s *service.Process, cfg Config, deps service.Deps, m *metrics) error {
	bad := func(topic, key string, err error) {
		m.catalog.Inc()
		deps.Log.Error("catalog record refused; the last good value stays", obs.Topic, topic, "key", key, "error", err)
	}
	tenants, prices, keys := catalog.NewTenants(bad), catalog.NewPrices(bad), catalog.NewSigningKeys(bad)
	followers := []*bus.Follower{s.Follow(topics.CatalogTenants, tenants.Apply), s.Follow(topics.CatalogPrices, prices.Apply), s.Follow(topics.ControlKeys, keys.Apply)}
	a := &attributor{
		log: deps.Log, metrics: m, reader: s.Conn, produce: s.Producer.Produce, maxIDs: cfg.MaxIDs, books: map[int32]*book{},
		loaded: func(ctx context.Context) error {
			for _, f := range followers {
				if err := f.WaitReady(ctx); err != nil {
					return err
				}
			}
			return nil
		},
		verifier: verifier{secret: cfg.Secret, keys: keys.Get, trusted: cfg.TrustTopic},
		catalogs: catalogs{contract: tenants.At, book: prices.Book, zones: &catalog.Zones{}},
	}
	events, err := s.Conn.Consumer(bus.ConsumerConfig{Group: Group, Topics: []bus.Topic{topics.UsageEvents}, MaxBatch: cfg.Batch, SessionTimeout: cfg.Session,
		OnAssigned: a.assigned, OnRevoked: a.release, OnLost: a.release}, a.handle)
	if err != nil {
		return err
	}
	s.Add("usage-events", lifecycle.Consumers, func(ctx context.Context) error { return consume(ctx, s, events) })
	return nil
}

func addSink(s *service.Process, cfg Config, deps service.Deps) error {
	ledger, err := clickhouse.Open(cfg.ClickHouse)
	if err != nil {
		return err
	}
	sink, err := clickhouse.NewLedgerSink(ledger, s.Conn, deps.Registry)
	if err != nil {
		return err
	}
	sinkConfig := sink.ConsumerConfig(cfg.SinkBatch, cfg.SinkLinger)
	sinkConfig.SessionTimeout = cfg.Session
	entries, err := s.Conn.Consumer(sinkConfig, sink.Handle)
	if err != nil {
		return err
	}
	tables := s.DependsOn("clickhouse")
	s.Add("ledger-sink", lifecycle.Consumers, func(ctx context.Context) error {
		if !tables.Wait(ctx, ledger.Probe) {
			return nil
		}
		return consume(ctx, s, entries)
	})
	s.Add("clickhouse answers", lifecycle.Stores, func(ctx context.Context) error { tables.Watch(ctx, ledger.Ping); return nil })
	s.Add("clickhouse", lifecycle.Stores, func(ctx context.Context) error {
		<-ctx.Done()
		return ledger.Close()
	})
	return nil
}

func consume(ctx context.Context, s *service.Process, c *bus.Consumer) error {
	return s.Consume(ctx, c, topics.UsageEvents, topics.LedgerEntries, topics.UsageDeadletter)
}
