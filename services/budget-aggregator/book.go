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

// The id filter of a partition: how many ids, and for how long. The age exceeds delivery time-out + session time-out.
const (
	filterIDs = 200_000
	filterAge = 10 * time.Minute
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
	// readTo is up to where the own output was read along.
	readTo int64
	room   *room
}

// room counts the totals of all partitions against one bound.
type room struct {
	used  atomic.Int64
	bound int64
}

func newBook(partition int32, r *room) *book {
	return &book{partition: partition, totals: map[key]window.Total{}, dirty: map[key]struct{}{}, filter: journal.NewFilter(filterIDs, filterAge), room: r}
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
	return nil
}

// drop forgets everything, and gives its room back.
func (b *book) drop() {
	b.room.used.Add(-int64(len(b.totals)))
	clear(b.totals)
	clear(b.dirty)
}

// fold adds the entry at a journal offset to its totals. It may be repeated: a total skips what it contains.
func (b *book) fold(e ledger.Entry, offset int64) error {
	delta := e.Delta()
	for _, k := range keysOf(e) {
		old := b.totals[k]
		next, err := old.Add(delta, offset)
		if err != nil {
			return fmt.Errorf("total %q: %w", k.text(), err)
		}
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

// take folds one journal record, unless it repeats the id of an earlier one. duplicate says that it did.
func (b *book) take(r bus.Record) (duplicate bool, err error) {
	e, err := ledgercodec.Unmarshal(r.Value)
	if err != nil {
		return false, fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
	}
	// Elsewhere its total would be restored by another owner than the one who folds it.
	if home := bus.PartitionFor([]byte(e.TenantID), r.Topic.Partitions()); home != r.Partition {
		return false, fmt.Errorf("journal %d/%d: entry %s of tenant %s belongs to partition %d", r.Partition, r.Offset, e.ID, e.TenantID, home)
	}
	if b.filter.Seen(e.ID, r.Offset, r.Timestamp) {
		return true, nil
	}
	return false, b.fold(e, r.Offset)
}

// maxPublish bounds one publication; only a restore has more to say than one batch changes.
const maxPublish = 5000

// publish writes the dirty totals, in the order of their keys. They stay dirty until they are acknowledged.
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
	return len(keys), nil
}
