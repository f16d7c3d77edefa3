package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/service"
)

// The consumer groups, one per topic: partitions of two topics in one group would not move together.
const (
	JournalGroup   = "weir.breaker-journal"
	DecisionsGroup = "weir.breaker-decisions"
)

// New builds the service: two followers feed what two consumers decide with. It dials nothing, so dependencies may come up
// later.
func New(cfg Config, deps service.Deps) (*service.Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Secret.IsZero() {
		return nil, errors.New("breaker: no HMAC secret: nobody would believe its events")
	}
	s, err := service.New("breaker", cfg.Settings, deps, topics.UsageEvents, topics.ExecutionsRevoked)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("breaker: %w", err)
	}
	contracts := catalog.NewTenants(func(topic, key string, err error) {
		m.catalog.Inc()
		deps.Log.Error("contract passed over", obs.Topic, topic, obs.TenantID, key, "error", err)
	})
	ended := &revoked{log: deps.Log, metrics: m, secret: cfg.Secret, produce: s.Producer.Produce, roots: map[string]struct{}{}}
	contractsRead, revocationsRead := s.Follow(topics.CatalogTenants, contracts.Apply), s.Follow(topics.ExecutionsRevoked, ended.apply)
	journal := &journalReader{
		log: deps.Log, metrics: m, reader: s.Conn, since: s.Admin.OffsetsSince, now: deps.Now, revoked: ended,
		loaded: func(ctx context.Context) error {
			return errors.Join(contractsRead.WaitReady(ctx), revocationsRead.WaitReady(ctx))
		},
		limits: func(id string, at time.Time) tenant.Execution {
			c, _ := contracts.At(id, at) // no such tenant: no limits, and nothing that it could have spent
			return c.Execution
		},
		room: &room{bound: int64(cfg.MaxExecutions)}, maxAge: cfg.MaxRootAge, books: map[int32]*book{},
	}
	err = consume(s, "journal", bus.ConsumerConfig{Group: JournalGroup, Topics: []bus.Topic{topics.LedgerEntries}, SessionTimeout: cfg.Session,
		OnAssigned: journal.assigned, OnRevoked: journal.release, OnLost: journal.release}, journal.handle)
	if err != nil {
		return nil, err
	}
	decisions := &decisionReader{log: deps.Log, metrics: m, loaded: revocationsRead.WaitReady, revoked: ended}
	return s, consume(s, "decisions", bus.ConsumerConfig{Group: DecisionsGroup, Topics: []bus.Topic{topics.AdmissionDecisions},
		SessionTimeout: cfg.Session, OnAssigned: decisions.assigned}, decisions.handle)
}

func consume(s *service.Process, name string, cfg bus.ConsumerConfig, handle bus.Handler) error {
	c, err := s.Conn.Consumer(cfg, handle)
	if err != nil {
		return err
	}
	s.Add(name, lifecycle.Consumers, func(ctx context.Context) error {
		return s.Consume(ctx, c, topics.LedgerEntries, topics.AdmissionDecisions, topics.UsageEvents, topics.ExecutionsRevoked, topics.CatalogTenants)
	})
	return nil
}
