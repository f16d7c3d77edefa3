package budgetaggregator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// book is what one partition's journal adds up to. mu is held by the handler for a batch, and by the read-along.
type book struct {
	mu         sync.Mutex
	partition  int32
	generation int64
	totals     map[key]window.Total
	// dirty are the totals that are not known to be the newest record of their key. It outlives a failed publication.
	dirty  map[key]struct{}
	filter *journal.Filter
	// highest is the highest version of any total.
	highest int64
	// ended is the last epoch whose base is in the output to its end, and bases the record keys of all bases that are there,
	// by epoch: at most a total's worth of keys each, of two epochs.
	ended int64
	bases map[string]int64
	// last is the end of the base of epoch ended; endDue: it must be written again. sweepDue: there may be older bases.
	last             baseEnd
	endDue, sweepDue bool
	// gone are the record keys of totals that have ended and are in the output still, aged when that was last looked for (see
	// age).
	gone map[string]struct{}
	aged time.Time
	// readTo is up to where the own output was read along.
	readTo int64
	room   *room
	now    func() time.Time
}

// room counts the totals of all partitions against one bound.
type room struct {
	used  atomic.Int64
	bound int64
}

func newBook(partition int32, r *room, now func() time.Time) *book {
	return &book{now: now, partition: partition, totals: map[key]window.Total{}, dirty: map[key]struct{}{}, bases: map[string]int64{},
		gone: map[string]struct{}{}, filter: journal.NewFilter(), room: r}
}

// set keeps a total, unless it is a new one beyond the bound.
func (b *book) set(k key, t window.Total) error {
	if _, known := b.totals[k]; !known {
		if b.room.used.Add(1) > b.room.bound {
			b.room.used.Add(-1)
			return fmt.Errorf("total %q: -max-windows (%d) is reached", k.text(), b.room.bound)
		}
	}
	b.totals[k] = t
	b.highest = max(b.highest, t.Version)
	return nil
}

// drop forgets all totals, and gives their room back.
func (b *book) drop() {
	b.room.used.Add(-int64(len(b.totals)))
	b.highest = 0
	clear(b.totals)
	clear(b.dirty)
}

// fold adds the entry at a journal offset to its totals. It may be repeated: a total skips what it contains.
func (b *book) fold(e ledger.Entry, offset int64) error {
	delta := e.Delta()
	for _, k := range keysOf(e) {
		old := b.totals[k]
		next := old.Add(delta, offset)
		if next.Version == old.Version {
			continue
		}
		if err := b.set(k, next); err != nil {
			return err
		}
		b.dirty[k] = struct{}{}
	}
	return nil
}

// taken is what a journal record was besides an entry that is folded.
type taken struct {
	// duplicate: it repeats the id of an earlier one, and was passed over.
	duplicate bool
	// raised is set for the marker that begins an epoch.
	raised *raised
}

// take folds one journal record, unless it repeats the id of an earlier one, or is a marker.
func (b *book) take(r bus.Record) (taken, error) {
	e, err := ledgercodec.Unmarshal(r.Value)
	if err != nil {
		return taken{}, fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
	}
	home := e.At.Partition // of a marker, which is about a partition
	if !e.IsMarker() {
		home = bus.PartitionFor([]byte(e.TenantID), r.Topic.Partitions())
	}
	// Elsewhere its total would be restored by another owner than the one who folds it.
	if home != r.Partition {
		return taken{}, fmt.Errorf("journal %d/%d: entry %s of tenant %q belongs to partition %d", r.Partition, r.Offset, e.ID, e.TenantID, home)
	}
	switch {
	case b.filter.Seen(e.ID, r.Offset, r.Timestamp):
		return taken{duplicate: true}, nil
	case e.IsMarker():
		return taken{raised: raisedBy(e, r.Offset)}, nil
	}
	if err := b.fold(e, r.Offset); err != nil {
		return taken{}, err
	}
	b.age(e.RecordedAt)
	return taken{}, nil
}

// maxPublish bounds one publication; only a restore has more to say than one batch changes.
const maxPublish = 5000

// publish writes the dirty totals, in the order of their keys, and removes those that are gone. They stay dirty, and gone,
// until that is acknowledged.
func (b *book) publish(ctx context.Context, produce func(context.Context, ...bus.Record) error) (int, error) {
	keys := slices.SortedFunc(maps.Keys(b.dirty), func(x, y key) int { return cmp.Compare(x.text(), y.text()) })
	for part := range slices.Chunk(keys, maxPublish) {
		records := make([]bus.Record, len(part))
		for i, k := range part {
			value, err := encode(k, b.totals[k], b.generation)
			if err != nil {
				return 0, err
			}
			records[i] = bus.NewRecord(topics.BudgetWindows, k.tenant, []byte(k.text()), value)
		}
		if err := produce(ctx, records...); err != nil {
			return 0, fmt.Errorf("publish totals: %w", err)
		}
		for _, k := range part {
			delete(b.dirty, k)
		}
	}
	return len(keys), b.bury(ctx, produce)
}

// remove writes tombstones for record keys of the output, in their order.
func (b *book) remove(ctx context.Context, produce func(context.Context, ...bus.Record) error, keys []string) error {
	slices.Sort(keys)
	for part := range slices.Chunk(keys, maxPublish) {
		records := make([]bus.Record, len(part))
		for i, k := range part {
			records[i] = bus.Record{Topic: topics.BudgetWindows, Partition: b.partition, Key: []byte(k)}
		}
		if err := produce(ctx, records...); err != nil {
			return err
		}
	}
	return nil
}
