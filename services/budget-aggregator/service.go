package budgetaggregator

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/service"
)

// The consumer groups.
const (
	Group     = "weir.budget-aggregator"
	SinkGroup = "weir.window-sink"
)

// New builds the service. It dials nothing, so dependencies may come up later.
func New(cfg Config, deps service.Deps) (*service.Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	table, err := clickhouse.Open(cfg.ClickHouse)
	if err != nil {
		return nil, err
	}
	s, err := build(cfg, deps, table)
	if err != nil {
		return nil, err
	}
	s.Add("clickhouse", lifecycle.Stores, func(ctx context.Context) error {
		<-ctx.Done()
		return table.Close()
	})
	return s, nil
}

// build builds the service around a table.
func build(cfg Config, deps service.Deps, table windowTable) (*service.Process, error) {
	s, err := service.New("budget-aggregator", cfg.Settings, deps, topics.BudgetWindows)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, fmt.Errorf("budget-aggregator: %w", err)
	}
	a := &aggregator{log: deps.Log, metrics: m, reader: s.Conn, produce: s.Producer.Produce,
		room: &room{bound: int64(cfg.MaxWindows)}, every: cfg.ReadAlong, now: deps.Now, books: map[int32]*owned{}}
	journal, err := s.Conn.Consumer(bus.ConsumerConfig{Group: Group, Topics: []bus.Topic{topics.LedgerEntries}, SessionTimeout: cfg.Session,
		OnAssigned: a.assigned, OnRevoked: a.release, OnLost: a.release}, a.handle)
	if err != nil {
		return nil, err
	}
	windows, err := s.Conn.Consumer(bus.ConsumerConfig{Group: SinkGroup, Topics: []bus.Topic{topics.BudgetWindows}, MaxBatch: cfg.SinkBatch,
		Linger: cfg.SinkLinger, SessionTimeout: cfg.Session}, (&sink{log: deps.Log, metrics: m, table: table}).handle)
	if err != nil {
		return nil, err
	}
	for name, c := range map[string]*bus.Consumer{"journal": journal, "window-sink": windows} {
		s.Add(name, lifecycle.Consumers, func(ctx context.Context) error {
			return s.Consume(ctx, c, topics.LedgerEntries, topics.BudgetWindows)
		})
	}
	answers := s.DependsOn("clickhouse")
	s.Add("clickhouse answers", lifecycle.Stores, func(ctx context.Context) error {
		answers.Wait(ctx, table.Ping)
		answers.Watch(ctx, table.Ping)
		return nil
	})
	return s, nil
}
