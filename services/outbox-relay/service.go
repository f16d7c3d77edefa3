package outboxrelay

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/service"
)

// New builds the relay. It dials nothing, so dependencies may come up later. When it stops, the batch in flight is finished,
// within Config.Grace, and the lead let go before anything else.
func New(cfg Config, deps service.Deps) (*service.Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	writes := []bus.Topic{topics.UsageEvents} // topics/*.yaml: the topics with writer outbox-relay
	s, err := service.New("outbox-relay", cfg.Settings, deps, writes...)
	if err != nil {
		return nil, err
	}
	postgres := s.DependsOn("postgres")
	m, err := newMetrics(deps.Registry, deps.Now, postgres)
	if err != nil {
		return nil, fmt.Errorf("outbox-relay: %w", err)
	}
	r := &relay{cfg: cfg, log: deps.Log, metrics: m, now: deps.Now, postgres: postgres, produce: s.Producer.Produce, writes: writes, byDefault: topics.UsageEvents}
	s.Server.AddCheck("lead", func(context.Context) error {
		if !r.standing.Load() {
			return errors.New("has neither led nor stood by yet")
		}
		return nil
	})
	s.Add("relay", lifecycle.Consumers, func(ctx context.Context) error {
		// In a topic with another number of partitions a key's order would be broken for ever.
		if !s.Kafka.Wait(ctx, func(ctx context.Context) error {
			err := s.Admin.CheckPartitions(ctx, writes...)
			if err != nil {
				m.failures.WithLabelValues(onKafka).Inc()
			}
			return err
		}) {
			return nil
		}
		return r.run(ctx)
	})
	s.Add("measure", lifecycle.Stores, r.measure)
	return s, nil
}
