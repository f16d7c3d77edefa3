package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/instance"
)

// appliedWithin is how long tenants, keys and prices wait for the running services to have applied a change.
const appliedWithin = 15 * time.Second

// address is where a part is: WEIR_KAFKA, WEIR_CLICKHOUSE, … or what the instance in --dir remembers. A --dir that was
// given goes first: a shell that holds the exports of one instance must not write into it under another's name.
func (a *app) address(part, env string) (string, error) {
	if v := os.Getenv(env); v != "" && !a.dirGiven {
		return v, nil
	}
	s, err := instance.Dir(a.dir).Load()
	if err != nil {
		return "", fmt.Errorf("%w (or set %s)", err, env)
	}
	p, ok := s.Part(part)
	if !ok {
		return "", fmt.Errorf("the instance in %s has no %s: `weir up` did not get that far", a.dir, part)
	}
	if p.Ours() && !p.Alive() {
		return "", fmt.Errorf("%s of the instance in %s does not run: start it with `weir up --dir %s`", part, a.dir, a.dir)
	}
	return p.Address, nil
}

// kafka connects to the instance's Kafka and makes sure that it answers.
func (a *app) kafka(ctx context.Context) (*bus.Conn, error) {
	text, err := a.address("kafka", "WEIR_KAFKA")
	if err != nil {
		return nil, err
	}
	addr, err := bus.ParseAddress(text)
	if err != nil {
		return nil, misuse("%w", err)
	}
	conn, err := bus.Connect(bus.Options{
		Address: addr, ClientID: "weir", Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	if err != nil {
		return nil, misuse("%w", err)
	}
	admin, err := conn.Admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a machine that stands still for a moment is not away
	defer cancel()
	if err := admin.Ping(ctx); err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", addr, err)
	}
	return conn, nil
}

// publish writes catalog records and returns once every running service of the instance has applied them.
func (a *app) publish(ctx context.Context, conn *bus.Conn, topic bus.Topic, records []bus.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := send(ctx, conn, topic, records); err != nil {
		return err
	}
	return a.waitApplied(ctx, conn, topic)
}

// send writes records and returns once they are acknowledged.
func send(ctx context.Context, conn *bus.Conn, topic bus.Topic, records []bus.Record) error {
	producer, err := conn.Producer(bus.ProducerConfig{}, topic)
	if err != nil {
		return err
	}
	defer producer.Close(context.WithoutCancel(ctx))
	if err := producer.Produce(ctx, records...); err != nil {
		return fmt.Errorf("publish to %s: %w", topic.Name(), err)
	}
	return nil
}

// waitApplied polls the services that follow the topic until each has applied all that is in it now.
func (a *app) waitApplied(ctx context.Context, conn *bus.Conn, topic bus.Topic) error {
	s, err := instance.Dir(a.dir).Load()
	if err != nil {
		return nil // no instance here: services elsewhere follow the topic in their own time
	}
	p, _ := s.Part("kafka")
	if address, err := a.address("kafka", "WEIR_KAFKA"); err != nil || address != p.Address {
		return err // nil: the broker is another one's, so the services here do not follow it
	}
	admin, err := conn.Admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	ends, err := admin.EndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, appliedWithin)
	defer cancel()
	for _, v := range s.Services {
		if !v.Alive() {
			continue // it reads the whole topic before it is ready again
		}
		if err := waitService(ctx, v, topic.Name(), ends); err != nil {
			return fmt.Errorf("published, but %w", err)
		}
	}
	return nil
}

func waitService(ctx context.Context, v instance.Service, topic string, ends map[int32]int64) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		offsets, err := v.Catalog(ctx)
		if err == nil {
			applied, follows := offsets[topic]
			if !follows || reached(applied, ends) {
				return nil
			}
			err = fmt.Errorf("%s has not applied %s yet", v.Name, topic)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func reached(applied, ends map[int32]int64) bool {
	for p, end := range ends {
		if applied[p] < end {
			return false
		}
	}
	return true
}
