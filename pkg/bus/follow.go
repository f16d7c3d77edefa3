package bus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Follower keeps a local copy of a topic (in nearly all cases a compacted one) current: it applies every partition from
// the start, without a group, so every process that follows sees everything.
type Follower struct {
	conn  *Conn
	topic Topic
	apply func(Record) error

	mu      sync.Mutex
	applied map[int32]int64 // next offset to apply
	target  map[int32]int64 // end offsets at the start; readiness is to have applied below them
	ready   chan struct{}
	isReady bool
}

// Follow makes a follower; nothing happens before Run. apply is called from one goroutine, in order within a partition;
// a nil Value deletes the key. It must withstand a record that it has applied before; its errors are retried for ever.
func (c *Conn) Follow(topic Topic, apply func(Record) error) *Follower {
	return &Follower{conn: c, topic: topic, apply: apply, applied: map[int32]int64{}, ready: make(chan struct{})}
}

// Topic is the followed topic.
func (f *Follower) Topic() Topic { return f.topic }

// Ready reports whether everything that was in the topic when Run began has been applied.
func (f *Follower) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isReady
}

// WaitReady returns nil when Ready has become true, or the error of ctx.
func (f *Follower) WaitReady(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("follow %s: not caught up: %w", f.topic.Name(), ctx.Err())
	}
}

// Offsets returns, for each partition, the next offset to apply: everything below it is applied.
func (f *Follower) Offsets() map[int32]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.applied)
}

// Run follows until ctx ends and then returns nil. Every failure (Kafka away, apply) is logged and retried with backoff.
func (f *Follower) Run(ctx context.Context) error {
	wait := backoff{min: 100 * time.Millisecond, max: 10 * time.Second}
	for ctx.Err() == nil {
		err := f.follow(ctx, &wait)
		if ctx.Err() == nil {
			f.conn.opts.Log.Warn("follower will retry", "topic", f.topic.Name(), "attempt", wait.attempt+1, "error", err)
			wait.wait(ctx)
		}
	}
	return nil
}

func (f *Follower) follow(ctx context.Context, wait *backoff) error {
	next, err := f.begin(ctx)
	if err != nil {
		return err
	}
	cl, err := f.conn.client(kgo.ConsumePartitions(startAt(f.topic, next)))
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		records, err := f.conn.poll(ctx, cl, f.topic, next)
		if err != nil {
			return err
		}
		for _, r := range records {
			// A failing apply ends this client; the next one begins at exactly this record.
			if err := f.apply(r); err != nil {
				return fmt.Errorf("apply %s/%d offset %d: %w", f.topic.Name(), r.Partition, r.Offset, err)
			}
			f.advance(map[int32]int64{r.Partition: r.Offset + 1})
		}
		f.advance(next)
		wait.attempt = 0
	}
}

// begin asks where the log starts and ends, and returns where to go on.
func (f *Follower) begin(ctx context.Context) (map[int32]int64, error) {
	a, err := f.conn.Admin()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	starts, err := a.StartOffsets(ctx, f.topic)
	if err != nil {
		return nil, err
	}
	ends, err := a.EndOffsets(ctx, f.topic)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.target == nil {
		f.target = ends
	}
	f.mu.Unlock()
	f.advance(starts)
	return f.Offsets(), nil
}

// advance moves the applied offsets forward, never back, and notices when the target is reached.
func (f *Follower) advance(to map[int32]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, o := range to {
		f.applied[p] = max(f.applied[p], o)
	}
	if f.isReady {
		return
	}
	for p, o := range f.target {
		if f.applied[p] < o {
			return
		}
	}
	f.isReady = true
	close(f.ready)
}
