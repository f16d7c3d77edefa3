package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/journal"
)

// journalReader handles the journal; its books are those of the partitions that this process owns.
type journalReader struct {
	log     *slog.Logger
	metrics *metrics
	reader  journal.Reader
	// since finds where the journal's records of a time begin, per partition.
	since   func(context.Context, bus.Topic, time.Time) (map[int32]int64, error)
	now     func() time.Time
	loaded  func(context.Context) error // waits for contracts and revocations
	limits  limitsOf
	revoked *revoked
	room    *room
	maxAge  time.Duration

	mu    sync.Mutex
	books map[int32]*book
}

// handle folds a batch and ends the executions that have passed a limit.
func (j *journalReader) handle(ctx context.Context, claim bus.Claim, batch []bus.Record) error {
	// Load.
	b := j.book(claim.Partition())
	if b == nil {
		return fmt.Errorf("partition %d was not assigned", claim.Partition())
	}
	// Decode and decide, entry by entry: what precedes an entry that cannot be read counts all the same.
	var failed error
	for _, r := range batch {
		if failed = j.fold(b, r); failed != nil {
			break
		}
	}
	// Emit; there is nothing to save, as the journal is the state.
	if err := j.end(ctx, b); err != nil {
		return err
	}
	return failed
}

func (j *journalReader) fold(b *book, r bus.Record) error {
	before := b.filter.EvictedEarly()
	duplicate, widest, err := b.take(r, j.limits)
	if duplicate {
		j.metrics.duplicates.Inc()
	}
	j.metrics.evicted.Add(float64(b.filter.EvictedEarly() - before))
	j.metrics.fanOut(widest)
	j.metrics.executions.Set(float64(j.room.used.Load()))
	return err
}

// end publishes the pending trips; they stay pending until that is acknowledged.
func (j *journalReader) end(ctx context.Context, b *book) error {
	if err := j.revoked.end(ctx, b.pending); err != nil {
		return err
	}
	b.pending = nil
	return nil
}

// assigned folds the part of the journal in which executions that still run may have entries. What has tripped in there is
// revoked already, unless its contract was lowered since: then it is now.
func (j *journalReader) assigned(ctx context.Context, claim bus.Claim, at bus.Committed) (int64, error) {
	j.release(claim)
	if err := j.loaded(ctx); err != nil {
		return 0, err
	}
	b := newBook(j.room, j.maxAge, j.now)
	if err := j.restore(ctx, b, claim.Partition(), at.Offset); err != nil {
		b.drop()
		return 0, fmt.Errorf("restore: %w", err)
	}
	if err := j.end(ctx, b); err != nil {
		b.drop()
		return 0, fmt.Errorf("restore: %w", err)
	}
	j.mu.Lock()
	j.books[claim.Partition()] = b
	j.mu.Unlock()
	j.log.Info("partition restored", "partition", claim.Partition(), "executions", len(b.roots), "committed", at.Offset)
	return bus.AtCommitted, nil
}

func (j *journalReader) restore(ctx context.Context, b *book, partition int32, committed int64) error {
	if committed < 1 {
		return nil
	}
	// The journal's own time, so that a lag does not shorten the reach; but not ahead of ours, as a record's clock may be.
	last := j.now()
	err := j.reader.ReadPartition(ctx, topics.LedgerEntries, partition, committed-1, committed, func(r bus.Record) error {
		if r.Timestamp.Before(last) {
			last = r.Timestamp
		}
		return nil
	})
	if err != nil {
		return err
	}
	from, err := j.since(ctx, topics.LedgerEntries, last.Add(-j.maxAge))
	if err != nil {
		return err
	}
	if from[partition] >= committed {
		return nil
	}
	return j.reader.ReadPartition(ctx, topics.LedgerEntries, partition, from[partition], committed, func(r bus.Record) error {
		return j.fold(b, r)
	})
}

// release lets a partition go.
func (j *journalReader) release(claim bus.Claim) {
	j.mu.Lock()
	b := j.books[claim.Partition()]
	delete(j.books, claim.Partition())
	j.mu.Unlock()
	if b != nil {
		b.drop()
		j.metrics.executions.Set(float64(j.room.used.Load()))
	}
}

func (j *journalReader) book(partition int32) *book {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.books[partition]
}
