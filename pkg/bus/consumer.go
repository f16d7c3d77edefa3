package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Handler handles records of one partition, in offset order. Its contract:
//   - It may be given the same records again, in other cuts, and must then have no further effect.
//   - nil means that everything, including what it produced, is durable: the offsets may be committed.
//   - An error means: stop this partition, retry the same batch with backoff, never skip. Other partitions go on.
//     Poison is not an error: the handler sends it to the dead letter itself and returns nil.
//   - A Fatal error (a broken invariant) ends Run, with nothing committed.
//   - It returns soon after ctx ends, and keeps neither the slice nor the claim.
type Handler func(ctx context.Context, claim Claim, batch []Record) error

// Fatal wraps the error of a broken invariant: going on would corrupt the books, so the process must stop.
type Fatal struct{ Err error }

// Error is the message of the wrapped error.
func (f Fatal) Error() string { return "fatal: " + f.Err.Error() }

// Unwrap returns the wrapped error.
func (f Fatal) Unwrap() error { return f.Err }

// ConsumerConfig describes a group consumer. Group and Topics are required, the rest has defaults.
type ConsumerConfig struct {
	Group  string
	Topics []Topic
	// MaxBatch is the most records given to the handler at once (default 500).
	MaxBatch int
	// MaxPending and MaxPendingBytes bound what is read ahead per partition (default 4×MaxBatch, 16 MiB); one poll of
	// at most MaxBatch records may exceed them. At the bound the partition's fetch pauses.
	MaxPending      int
	MaxPendingBytes int
	// Linger waits for a full batch after the first record (default 0). Sinks use it for larger inserts.
	Linger time.Duration
	// SessionTimeout is after how long without a heartbeat the broker gives the partitions to others (default 15 s;
	// heartbeats go on while a handler or a restore runs). The broker bounds it (group.min.session.timeout.ms).
	SessionTimeout time.Duration
	// Grace is how long a batch in flight may take after its partition is revoked or Run is ended, before its context
	// is cancelled and it is not committed (default 10 s; the group waits a minute for a member to let go).
	Grace time.Duration
	// RetryMin and RetryMax bound the backoff between attempts (default 100 ms, 10 s).
	RetryMin, RetryMax time.Duration
	// OnAssigned, if set, restores the partition's state before its first batch and says where to start (AtCommitted or
	// an offset). It may take minutes: neither heartbeats nor other partitions wait for it. ctx ends when the partition is
	// revoked meanwhile; errors are retried.
	OnAssigned func(ctx context.Context, claim Claim, at Committed) (startAt int64, err error)
	// OnRevoked and OnLost, if set, let the partition's state go, once its last batch has ended. After OnRevoked the last
	// commit stands; after OnLost another owner may already be at work.
	OnRevoked, OnLost func(claim Claim)
}

func (c *ConsumerConfig) defaults() {
	setDefault(&c.MaxBatch, 500)
	setDefault(&c.MaxPending, 4*c.MaxBatch)
	setDefault(&c.MaxPendingBytes, 16<<20)
	setDefault(&c.SessionTimeout, 15*time.Second)
	setDefault(&c.Grace, 10*time.Second)
	setDefault(&c.RetryMin, 100*time.Millisecond)
	setDefault(&c.RetryMax, 10*time.Second)
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

type topicPartition struct {
	topic     string
	partition int32
}

// Consumer is one member of a consumer group: a poll loop and one worker per assigned partition.
type Consumer struct {
	cfg    ConsumerConfig
	conn   *Conn
	handle Handler
	topics map[string]Topic
	base   context.Context // outlives Run's context: a batch in flight at shutdown is finished
	cl     *kgo.Client
	ready  chan struct{} // closed once cl is set: kgo may call back before NewClient has returned

	mu       sync.Mutex
	workers  map[topicPartition]*worker
	restored []*worker // restored, and waiting for the loop to open them
	wake     context.CancelFunc
	highest  map[topicPartition]int64 // next offset not yet given to the handler by this process; bounded by the partitions
	fatal    error
}

// Consumer makes a group consumer; nothing happens before Run.
func (c *Conn) Consumer(cfg ConsumerConfig, handle Handler) (*Consumer, error) {
	if cfg.Group == "" || len(cfg.Topics) == 0 || handle == nil {
		return nil, errors.New("bus: consumer needs a group, topics and a handler")
	}
	cfg.defaults()
	k := &Consumer{cfg: cfg, conn: c, handle: handle, topics: map[string]Topic{}, ready: make(chan struct{}),
		workers: map[topicPartition]*worker{}, highest: map[topicPartition]int64{}}
	for _, t := range cfg.Topics {
		if t.IsZero() {
			return nil, errors.New("bus: consumer of an undeclared topic")
		}
		k.topics[t.Name()] = t
	}
	if err := kgo.ValidateOpts(append(slices.Clone(c.kgo), k.options()...)...); err != nil {
		return nil, fmt.Errorf("bus: consumer %s: %w", cfg.Group, err)
	}
	return k, nil
}

func (c *Consumer) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(c.cfg.Group),
		kgo.ConsumeTopics(slices.Sorted(maps.Keys(c.topics))...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(c.cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, c.cfg.SessionTimeout/3)),
		kgo.RebalanceTimeout(time.Minute),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnOffsetsFetched(c.onOffsetsFetched),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { c.release(p, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { c.release(p, true) }),
	}
}

// Run consumes until ctx ends, then finishes the batches in flight, commits, leaves the group and returns nil. It
// returns an error only for a Fatal one of a hook or the handler. It may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	c.base = context.WithoutCancel(ctx)
	cl, err := c.conn.client(c.options()...)
	if err != nil {
		return err
	}
	c.cl = cl
	close(c.ready)
	for ctx.Err() == nil && c.err() == nil {
		c.step(ctx)
	}
	cl.CloseAllowingRebalance() // leaves the group, which revokes everything: release waits for the workers
	return c.err()
}

// step is the loop: poll, hand each partition's records to its worker, allow a rebalance. A worker handles, commits and
// records the lag. Nothing in here waits for a handler, so a rebalance never waits for the loop.
func (c *Consumer) step(ctx context.Context) {
	pollCtx, done := c.pollContext(ctx)
	defer done()
	fetches := c.cl.PollRecords(pollCtx, c.cfg.MaxBatch)
	defer c.cl.AllowRebalance()
	c.openRestored()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil && pollCtx.Err() == nil {
			c.conn.metrics.fetchErrors.WithLabelValues(p.Topic).Inc()
			c.conn.opts.Log.Error("fetch failed", "group", c.cfg.Group, "topic", p.Topic, "partition", p.Partition, "error", p.Err)
		}
		if len(p.Records) == 0 {
			return
		}
		if w := c.worker(topicPartition{p.Topic, p.Partition}); w != nil {
			w.offer(p.Records, p.HighWatermark)
		}
	})
}

// pollContext ends with ctx, or when a worker has something for the loop to do.
func (c *Consumer) pollContext(ctx context.Context) (context.Context, context.CancelFunc) {
	pollCtx, wake := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake = wake
	if len(c.restored) > 0 || c.fatal != nil {
		wake()
	}
	return pollCtx, wake
}

// openRestored moves restored partitions to their start and lets their records flow. It runs between poll and
// AllowRebalance, where kgo allows SetOffsets.
func (c *Consumer) openRestored() {
	c.mu.Lock()
	restored := c.restored
	c.restored = nil
	c.mu.Unlock()
	for _, w := range restored {
		if c.worker(w.tp) != w {
			continue // revoked meanwhile
		}
		if w.startAt >= 0 {
			c.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{w.tp.topic: {w.tp.partition: {Epoch: -1, Offset: w.startAt}}})
		}
		w.open()
	}
}

// onAssigned stops the flow until the worker has restored its state.
func (c *Consumer) onAssigned(_ context.Context, cl *kgo.Client, assigned map[string][]int32) {
	cl.PauseFetchPartitions(assigned)
}

// onOffsetsFetched starts a worker per new partition: only here are the committed offset and its metadata known.
func (c *Consumer) onOffsetsFetched(_ context.Context, cl *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	<-c.ready
	_, generation := cl.GroupMetadata()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range resp.Groups[0].Topics {
		topic, ok := c.topics[t.Topic]
		if !ok {
			continue
		}
		for _, p := range t.Partitions {
			tp := topicPartition{t.Topic, p.Partition}
			if p.ErrorCode != 0 || c.workers[tp] != nil {
				continue
			}
			committed := Committed{Offset: p.Offset}
			if p.Metadata != nil && p.Offset >= 0 {
				committed.Metadata = *p.Metadata
			}
			claim := NewClaim(topic, p.Partition, generation, nil)
			c.workers[tp] = startWorker(c, tp, claim, committed)
		}
	}
	return nil
}

// release lets partitions go. Revoked: the batch in flight is finished and committed, within Grace. Lost: dropped.
func (c *Consumer) release(parts map[string][]int32, lost bool) {
	var gone []*worker
	c.mu.Lock()
	for topic, ps := range parts {
		for _, p := range ps {
			if w := c.workers[topicPartition{topic, p}]; w != nil {
				gone = append(gone, w)
				delete(c.workers, w.tp)
			}
		}
	}
	c.mu.Unlock()
	for _, w := range gone {
		w.stop(lost)
	}
	grace := time.AfterFunc(c.cfg.Grace, func() {
		for _, w := range gone {
			w.abort()
		}
	})
	defer grace.Stop()
	for _, w := range gone {
		<-w.done
		c.conn.metrics.forget(c.cfg.Group, w.tp.topic, w.tp.partition)
		hook := c.cfg.OnRevoked
		if lost {
			hook = c.cfg.OnLost
		}
		if hook != nil {
			hook(w.claim)
		}
	}
}

func (c *Consumer) commit(ctx context.Context, tp topicPartition, offset int64, metadata string) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = &metadata // kgo would write the member id
			}
		}
		return nil
	})
	var failed error
	c.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{tp.topic: {tp.partition: {Epoch: -1, Offset: offset}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil || resp == nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	if failed != nil {
		c.conn.metrics.commitErrors.WithLabelValues(c.cfg.Group, tp.topic).Inc()
		return fmt.Errorf("commit %s/%d at %d: %w", tp.topic, tp.partition, offset, failed)
	}
	return nil
}

func (c *Consumer) worker(tp topicPartition) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[tp]
}

// notify hands a restored worker or a fatal error to the loop and wakes it.
func (c *Consumer) notify(w *worker, fatal error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w != nil {
		c.restored = append(c.restored, w)
	}
	if fatal != nil && c.fatal == nil {
		c.fatal = fatal
	}
	if c.wake != nil {
		c.wake()
	}
}

func (c *Consumer) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}
