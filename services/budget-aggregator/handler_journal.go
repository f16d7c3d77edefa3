package budgetaggregator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/journal"
)

// aggregator handles the journal; its books are those of the partitions that this process owns.
type aggregator struct {
	log     *slog.Logger
	metrics *metrics
	reader  journal.Reader
	produce func(context.Context, ...bus.Record) error
	room    *room
	every   time.Duration
	now     func() time.Time

	mu    sync.Mutex
	books map[int32]*owned
}

// owned is a book and its read-along.
type owned struct {
	*book
	stop context.CancelFunc
	done chan struct{}
}

// handle folds a batch and publishes what it changed, in one publication; at a marker it stops for the base.
func (a *aggregator) handle(ctx context.Context, claim bus.Claim, batch []bus.Record) error {
	// Load.
	b := a.book(claim.Partition())
	if b == nil {
		return fmt.Errorf("partition %d was not assigned", claim.Partition())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(batch) > 0 {
		// Decode and decide, entry by entry: what precedes an entry that cannot be folded is published all the same.
		n, mark, failed := a.fold(b, batch)
		// Save and emit: the output is the state.
		if err := a.save(ctx, b, mark); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		batch = batch[n:]
	}
	return nil
}

// save publishes what is dirty, then the base of a marker: nothing behind it is folded before that is acknowledged.
func (a *aggregator) save(ctx context.Context, b *book, mark *raised) error {
	n, err := b.publish(ctx, a.produce)
	a.metrics.published.Add(float64(n))
	if err == nil && mark != nil {
		err = a.publishBase(ctx, b, *mark)
	}
	if err == nil {
		err = a.tidy(ctx, b)
	}
	return err
}

// fold takes records up to the first marker whose base is due, that one included. n is how many it took.
func (a *aggregator) fold(b *book, batch []bus.Record) (n int, mark *raised, err error) {
	before := b.filter.EvictedEarly()
	defer func() {
		a.metrics.evicted.Add(float64(b.filter.EvictedEarly() - before))
		a.metrics.windows.Set(float64(a.room.used.Load()))
	}()
	for i, r := range batch {
		t, err := b.take(r)
		if err != nil {
			return i, nil, err
		}
		if t.duplicate {
			a.metrics.duplicates.Inc()
		}
		if t.raised != nil && t.raised.epoch > b.ended {
			return i + 1, t.raised, nil
		}
	}
	return len(batch), nil, nil
}

// assigned restores a partition, writes again what its output has wrong, and starts to read it along.
func (a *aggregator) assigned(ctx context.Context, claim bus.Claim, at bus.Committed) (int64, error) {
	a.release(claim)
	b, mark, err := a.restore(ctx, claim, at.Offset)
	if err != nil {
		return 0, err
	}
	if err := a.save(ctx, b, mark); err != nil {
		b.drop()
		return 0, fmt.Errorf("restore: %w", err)
	}
	along, stop := context.WithCancel(context.WithoutCancel(ctx))
	o := &owned{book: b, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		a.readAlong(along, b)
	}()
	a.mu.Lock()
	a.books[claim.Partition()] = o
	a.mu.Unlock()
	a.metrics.windows.Set(float64(a.room.used.Load()))
	a.log.Info("partition restored", "partition", claim.Partition(), "totals", len(b.totals), "generation", b.generation, "committed", at.Offset)
	return bus.AtCommitted, nil
}

// release lets a partition go.
func (a *aggregator) release(claim bus.Claim) {
	a.mu.Lock()
	o := a.books[claim.Partition()]
	delete(a.books, claim.Partition())
	a.mu.Unlock()
	if o == nil {
		return
	}
	o.stop()
	<-o.done
	o.drop()
	a.metrics.windows.Set(float64(a.room.used.Load()))
}

func (a *aggregator) book(partition int32) *book {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.books[partition]; o != nil {
		return o.book
	}
	return nil
}
