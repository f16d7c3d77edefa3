package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"
)

// batchOverhead is added to a topic's record bound for what Kafka itself writes around one record in a batch.
const batchOverhead = 64 << 10

// maxBatchBytes is what one batch may hold; EnsureTopics sets max.message.bytes to it.
func maxBatchBytes(t Topic) int { return max(1<<20, t.MaxRecordBytes()+batchOverhead) }

// ErrTooLarge is a record above its topic's MaxRecordBytes. Retrying cannot help.
var ErrTooLarge = errors.New("record exceeds the bound of its topic")

// ProducerConfig has a default for every field.
type ProducerConfig struct {
	// MaxBuffered bounds the records in flight over all callers (default 10,000); at the bound Produce waits.
	MaxBuffered int
	// DeliveryTimeout is after how long an unacknowledged record is given up (default 30 s). It bounds how late a write
	// of a dead owner can appear, and so sizes the id filters of the readers.
	DeliveryTimeout time.Duration
}

// Producer writes with acks=all and an idempotent producer id. It is safe for concurrent use.
type Producer struct {
	conn     *Conn
	cl       *kgo.Client
	room     *semaphore.Weighted
	delivery time.Duration
}

// Producer makes a producer. topics are what it will write: their batch bounds are taken from here.
func (c *Conn) Producer(cfg ProducerConfig, topics ...Topic) (*Producer, error) {
	if cfg.MaxBuffered <= 0 {
		cfg.MaxBuffered = 10_000
	}
	if cfg.DeliveryTimeout <= 0 {
		cfg.DeliveryTimeout = 30 * time.Second
	}
	batch := map[string]int32{}
	for _, t := range topics {
		batch[t.Name()] = int32(maxBatchBytes(t))
	}
	cl, err := c.client(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(2*cfg.MaxBuffered), // never reached: room is the bound, and its wait can be cancelled
		kgo.ProducerLinger(0),                     // a lone record goes at once; concurrent callers still share batches
		// Without this kgo waits for ever for the fate of a record in flight. A bounded time-out may write a record
		// twice after a retry, which every reader withstands (by id); an unbounded late write none could.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			if n, ok := batch[topic]; ok {
				return n
			}
			return 1 << 20
		}),
	)
	if err != nil {
		return nil, err
	}
	return &Producer{conn: c, cl: cl, room: semaphore.NewWeighted(int64(cfg.MaxBuffered)), delivery: cfg.DeliveryTimeout}, nil
}

// Produce writes the records and returns nil once all of them are acknowledged by all in-sync replicas. Records of one
// partition are written in the order given. On an error any of them may or may not have been written, and what was in
// flight when ctx ended may still be written until DeliveryTimeout: the caller retries the whole batch with the same ids.
// A record above its topic's bound (ErrTooLarge), of an undeclared topic or partition fails the call before any write.
func (p *Producer) Produce(ctx context.Context, records ...Record) error {
	for i := range records {
		if err := check(records[i]); err != nil {
			p.conn.metrics.produceErrors.WithLabelValues(records[i].Topic.Name()).Inc()
			return err
		}
	}
	// kgo gets a context that does not end with the caller's: cancelling one caller's record would fail the records of
	// every other caller in the same partition. Its deadline is the delivery time-out: kgo's own is counted from the
	// record's timestamp, so that a record of the past would have timed out before it was sent, and one of the future never.
	free, expire := context.WithTimeout(context.WithoutCancel(ctx), p.delivery)
	context.AfterFunc(free, expire)
	acks := make(chan error, len(records))
	for i := range records {
		if err := p.room.Acquire(ctx, 1); err != nil {
			return fmt.Errorf("produce to %s: no room in the buffer: %w", records[i].Topic.Name(), err)
		}
		p.cl.Produce(free, toKgo(records[i]), func(_ *kgo.Record, err error) {
			p.room.Release(1)
			if err != nil {
				p.conn.metrics.produceErrors.WithLabelValues(records[i].Topic.Name()).Inc()
				acks <- fmt.Errorf("produce to %s partition %d: %w", records[i].Topic.Name(), records[i].Partition, err)
				return
			}
			p.conn.metrics.produced.WithLabelValues(records[i].Topic.Name()).Inc()
			acks <- nil
		})
	}
	var first error
	for range records {
		select {
		case err := <-acks:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return fmt.Errorf("produce: outcome unknown: %w", ctx.Err())
		}
	}
	expire()
	return first
}

func check(r Record) error {
	switch {
	case r.Topic.IsZero():
		return errors.New("produce: record without a declared topic")
	case r.Partition < 0 || int(r.Partition) >= r.Topic.Partitions():
		return fmt.Errorf("produce to %s: partition %d of %d", r.Topic.Name(), r.Partition, r.Topic.Partitions())
	case r.Topic.MaxRecordBytes() > 0 && r.Size() > r.Topic.MaxRecordBytes():
		return fmt.Errorf("produce to %s: %d bytes of %d: %w", r.Topic.Name(), r.Size(), r.Topic.MaxRecordBytes(), ErrTooLarge)
	}
	return nil
}

// Close waits until everything buffered is written or ctx ends, then gives up the rest, which it logs, and closes the
// connections. That is no error of the one who closes: Produce gives one to whoever wrote what is given up, and nobody was
// promised it.
func (p *Producer) Close(ctx context.Context) {
	if err := p.cl.Flush(ctx); err != nil {
		p.conn.opts.Log.Warn("records given up: Kafka did not take them before the end", "records", p.cl.BufferedProduceRecords(), "error", err)
	}
	p.cl.Close()
}
