// Package journal holds what every reader of ledger.entries.v1 shares: the filter of duplicate entry ids.
//
// The journal may hold an entry twice: a late write of a dead owner, up to delivery time-out + session time-out after
// the first. Each reader (aggregator, breaker, ledger sink, admission) asks the same filter, one per partition, and
// warms it from the journal itself when it takes a partition over. The package does not decode entries.
//
// Invariant: of all records with one id inside the filter's reach, exactly the one with the lowest offset is no
// duplicate, however often any of them is delivered again.
package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/bus"
)

// Bounds of a filter, the same for every reader: one that forgets earlier counts a duplicate that the others pass over. An id
// lives longer than the attributor's delivery time-out (30 s) and session time-out (service.MaxSession) together.
const (
	mostIDs = 200_000
	mostAge = 10 * time.Minute
)

// Filter remembers the ids of one partition. It is not safe for concurrent use: it belongs to the partition's worker.
// At its bounds it forgets the oldest ids first.
type Filter struct {
	maxIDs int
	maxAge time.Duration
	first  map[string]int64 // id → lowest offset
	queue  []seen           // in order of arrival; queue[head:] is alive
	head   int
	newest time.Time
	early  uint64
}

type seen struct {
	id string
	ts time.Time
}

// NewFilter makes a filter of at most mostIDs ids. An id is also dropped once the newest record is more than mostAge younger,
// by record timestamps. A tenth of mostIDs is kept whatever its age, so that one record with a clock far ahead does not empty
// the filter.
func NewFilter() *Filter { return newFilter(mostIDs, mostAge) }

func newFilter(maxIDs int, maxAge time.Duration) *Filter {
	return &Filter{maxIDs: maxIDs, maxAge: maxAge, first: map[string]int64{}}
}

// Seen reports whether a record is a duplicate: whether its id was met at a lower offset. It remembers the id. The same
// record given again (a retried batch, a redelivery) is no duplicate of itself.
func (f *Filter) Seen(id string, offset int64, ts time.Time) bool {
	if ts.After(f.newest) {
		f.newest = ts
	}
	if at, ok := f.first[id]; ok {
		f.first[id] = min(at, offset)
		return at < offset
	}
	f.first[id] = offset
	f.queue = append(f.queue, seen{id, ts})
	f.evict()
	return false
}

// Len is the number of ids remembered.
func (f *Filter) Len() int { return len(f.first) }

// EvictedEarly counts the ids dropped for want of room while still younger than mostAge. Anything but 0 means that mostIDs
// is too small for the rate, and that a duplicate could pass: it is a metric with an alert.
func (f *Filter) EvictedEarly() uint64 { return f.early }

func (f *Filter) evict() {
	for f.Len() > 1 {
		oldest := f.queue[f.head]
		aged := f.newest.Sub(oldest.ts) > f.maxAge
		if f.Len() <= f.maxIDs && (!aged || f.Len() <= f.maxIDs/10) {
			break
		}
		if !aged {
			f.early++
		}
		delete(f.first, oldest.id)
		f.queue[f.head] = seen{}
		f.head++
	}
	if f.head > len(f.queue)/2 { // amortised constant: each element is moved at most once per halving
		f.queue = slices.Clone(f.queue[f.head:])
		f.head = 0
	}
}

// Reader reads a range of a partition; *bus.Conn is one.
type Reader interface {
	ReadPartition(ctx context.Context, topic bus.Topic, partition int32, from, to int64, fn func(bus.Record) error) error
}

// Warm feeds the filter with as many of the last records before committed as it holds, as the reader that handled them did. id
// names a record's entry id; "" passes it over. A committed below 1 leaves nothing to do.
func (f *Filter) Warm(ctx context.Context, r Reader, topic bus.Topic, partition int32, committed int64, id func(bus.Record) (string, error)) error {
	if committed < 1 {
		return nil
	}
	err := r.ReadPartition(ctx, topic, partition, max(0, committed-int64(f.maxIDs)), committed, func(rec bus.Record) error {
		key, err := id(rec)
		if err == nil && key != "" {
			f.Seen(key, rec.Offset, rec.Timestamp)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("warm id filter of %s/%d: %w", topic.Name(), partition, err)
	}
	return nil
}
