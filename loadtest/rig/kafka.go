package rig

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// Kafka connects to the instance's broker as any other producer would.
func (r *Rig) Kafka() (*bus.Conn, error) {
	addr, err := bus.ParseAddress(r.Env("WEIR_KAFKA"))
	if err != nil {
		return nil, err
	}
	return bus.Connect(bus.Options{
		Address: addr, ClientID: "loadtest", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
}

// Sender produces usage events and waits for the broker's acknowledgement.
type Sender struct{ producer *bus.Producer }

// Sender makes a producer for usage.events.v1. The caller closes it.
func (r *Rig) Sender() (*Sender, error) {
	conn, err := r.Kafka()
	if err != nil {
		return nil, err
	}
	p, err := conn.Producer(bus.ProducerConfig{}, topics.UsageEvents)
	if err != nil {
		return nil, err
	}
	return &Sender{p}, nil
}

// Message is one record by its tenant, which is its key. Shift moves it that many partitions away from the right one,
// as a client with another hash would.
type Message struct {
	Tenant, Value string
	Shift         int32
}

// Send writes the messages in order.
func (s *Sender) Send(ctx context.Context, messages ...Message) error {
	records := make([]bus.Record, len(messages))
	for i, m := range messages {
		records[i] = bus.NewRecord(topics.UsageEvents, m.Tenant, []byte(m.Tenant), []byte(m.Value))
		records[i].Partition = (records[i].Partition + m.Shift) % int32(topics.UsageEvents.Partitions())
	}
	if err := s.producer.Produce(ctx, records...); err != nil {
		return fmt.Errorf("send usage events: %w", err)
	}
	return nil
}

// Close waits for what is under way.
func (s *Sender) Close(ctx context.Context) { s.producer.Close(ctx) }

// AllEvents reads every record that stands in usage.events.v1 now, with its headers.
func (r *Rig) AllEvents(ctx context.Context) ([]bus.Record, error) {
	conn, err := r.Kafka()
	if err != nil {
		return nil, err
	}
	var all []bus.Record
	for p := range int32(topics.UsageEvents.Partitions()) {
		err := conn.ReadPartition(ctx, topics.UsageEvents, p, -1, -1, func(rec bus.Record) error {
			all = append(all, rec)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read usage events: %w", err)
		}
	}
	return all, nil
}

// Resend writes records again as they are, each shift partitions away from where it stood.
func (s *Sender) Resend(ctx context.Context, records []bus.Record, shift int32) error {
	again := make([]bus.Record, len(records))
	for i, rec := range records {
		again[i] = rec
		again[i].Partition = (rec.Partition + shift) % int32(rec.Topic.Partitions())
	}
	if err := s.producer.Produce(ctx, again...); err != nil {
		return fmt.Errorf("send usage events again: %w", err)
	}
	return nil
}
