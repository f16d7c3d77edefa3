// Package service is what the services that read and write topics, and answer no caller, have in common: the first flags,
// the parts of each process, and main. Admission, which answers callers, does without it.
//
// It owns: the flags kafka, http, log-level and log-format, one producer and one administrative client, the HTTP server of
// health and metrics, and in which order all of it stops. It does not own what a service reads, decides or keeps: the
// service adds that as parts.
package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
)

const (
	// shutdownDeadline bounds the whole shutdown; a batch in flight gets the bus' grace, which is below it.
	shutdownDeadline = 25 * time.Second
	// flushWithin bounds the last acknowledgements.
	flushWithin = 5 * time.Second
)

// Deps is what comes from outside. Log, Registry and Now are required.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	// Listener overrides Settings.HTTP, for tests.
	Listener net.Listener
}

// Process is one process of a service. Add its parts before Run.
type Process struct {
	*lifecycle.Group
	Conn     *bus.Conn
	Producer *bus.Producer
	Admin    *bus.Admin
	// Kafka is a readiness check: it has answered once its topics are as declared, and answers since.
	Kafka  *lifecycle.Dependency
	Server *obs.Server

	deps       Deps
	name, http string
	listener   net.Listener
}

// New makes the process of a service that writes some topics. It dials nothing, so dependencies may come up later.
func New(name string, s Settings, deps Deps, writes ...bus.Topic) (*Process, error) {
	address, err := bus.ParseAddress(s.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: name, Log: deps.Log, Metrics: deps.Registry, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	p := &Process{Group: lifecycle.New(deps.Log, shutdownDeadline), Conn: conn, deps: deps,
		Server: obs.NewServer(deps.Registry), name: name, http: s.HTTP, listener: deps.Listener}
	if p.Admin, err = conn.Admin(); err != nil {
		return nil, err
	}
	if p.Producer, err = conn.Producer(bus.ProducerConfig{}, writes...); err != nil {
		return nil, err
	}
	p.Kafka = p.DependsOn("kafka")
	p.Add("kafka answers", lifecycle.Consumers, func(ctx context.Context) error { p.Kafka.Watch(ctx, p.Admin.Answers); return nil })
	return p, nil
}

// DependsOn makes a dependency that is a readiness check and a metric. Somebody must ask it.
func (p *Process) DependsOn(name string) *lifecycle.Dependency {
	d := lifecycle.NewDependency(name, p.deps.Log, p.deps.Now)
	p.Server.AddCheck(name, d.Check)
	p.deps.Registry.MustRegister(obs.Silence(name, d.Silent))
	return d
}

// Follow adds a follower of a topic, whose readiness is the process'.
func (p *Process) Follow(topic bus.Topic, apply func(bus.Record) error) *bus.Follower {
	f := p.Conn.Follow(topic, apply)
	p.Server.AddCatalog(topic.Name(), f.Ready, f.Offsets)
	p.Add(topic.Name(), lifecycle.Stores, f.Run)
	return f
}

// Consume waits until the topics are there with the declared number of partitions, since a tenant's records in another
// partition are out of their order, or a total in two places, and then consumes until ctx ends.
func (p *Process) Consume(ctx context.Context, c *bus.Consumer, topics ...bus.Topic) error {
	if !p.Kafka.Wait(ctx, func(ctx context.Context) error { return p.Admin.CheckPartitions(ctx, topics...) }) {
		return nil
	}
	return c.Run(ctx)
}

// Run works until ctx ends or a signal comes, then stops in order: consumers, which finish the batch in flight and commit,
// the producer, followers and stores, the HTTP server.
func (p *Process) Run(ctx context.Context) error {
	listener := p.listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", p.http); err != nil {
			return fmt.Errorf("%s: listen: %w", p.name, err)
		}
	}
	p.Add("producer", lifecycle.Producers, func(ctx context.Context) error {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		p.Admin.Close()
		p.Producer.Close(closing)
		return nil
	})
	p.Add("http", lifecycle.Observe, func(ctx context.Context) error { return p.Server.Serve(ctx, listener) })
	return p.Group.Run(ctx)
}
