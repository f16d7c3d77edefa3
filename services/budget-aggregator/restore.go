package budgetaggregator

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// restored is what an output partition says, read from its start.
type restored struct {
	*book
	newest  int64 // highest generation
	version int64 // highest version of any total
	// suspect are the keys whose last record is of an older generation than one before it: a dead owner wrote late, and
	// compaction may have taken what it overwrote. Hence what remains may lack entries.
	suspect map[key]struct{}
	// unreadable counts records that are no totals.
	unreadable int
	// based is what it says of bases. Their generations are apart: a base says nothing of who wrote totals last.
	based basesRead
}

func (r *restored) read(rec bus.Record) error {
	r.readTo = rec.Offset + 1
	if rec.Value == nil {
		r.based.take(string(rec.Key), nil)
		if k, ok := buried(rec.Key); ok {
			r.forget(k)
			delete(r.suspect, k)
		}
		return nil
	}
	k, t, m, err := decode(rec.Value)
	if err != nil {
		r.unreadable++
		return nil
	}
	if m.GetBaseEpoch() != 0 {
		r.based.take(string(rec.Key), m)
		return nil
	}
	if m.GetGeneration() < r.newest {
		r.suspect[k] = struct{}{}
	} else {
		r.newest = m.GetGeneration()
		delete(r.suspect, k)
	}
	r.version = max(r.version, t.Version)
	if t.Version < r.totals[k].Version {
		r.dirty[k] = struct{}{} // what counts stands before it: write it again
		return nil
	}
	delete(r.dirty, k)
	return r.set(k, t)
}

// takeBases hands over to the book what was read of bases. The end of the last one is the record of its marker.
func (r *restored) takeBases() {
	r.bases, r.last, r.ended = r.based.keys, r.based.last, r.based.last.epoch
	r.sweepDue, r.endDue = true, r.ended != 0 && r.based.behind[r.ended]
	if r.ended != 0 {
		r.version = max(r.version, r.last.version())
	}
}

// doubt is why the output cannot be trusted to contain everything below the committed offset; "" if it can. The last
// entry before it was published under a version equal to it, unless that entry was a duplicate.
func (r *restored) doubt(committed int64) string {
	switch {
	case r.unreadable > 0:
		return fmt.Sprintf("%d unreadable records", r.unreadable)
	case len(r.suspect) > 0:
		return fmt.Sprintf("an older generation wrote last to %d keys", len(r.suspect))
	case r.version < committed:
		return fmt.Sprintf("highest version is %d", r.version)
	}
	return ""
}

// restore rebuilds the state of a partition as of the committed offset or later. mark is the last marker whose base should
// be in the output and is not.
func (a *aggregator) restore(ctx context.Context, claim bus.Claim, committed int64) (b *book, mark *raised, err error) {
	r := &restored{book: newBook(claim.Partition(), a.room, a.now), suspect: map[key]struct{}{}, based: newBasesRead()}
	defer func() {
		if err != nil {
			r.drop()
		}
	}()
	if err := a.reader.ReadPartition(ctx, topics.BudgetWindows, claim.Partition(), 0, -1, r.read); err != nil {
		return nil, nil, fmt.Errorf("restore: %w", err)
	}
	r.takeBases()
	if err := a.passMarkers(ctx, r, committed); err != nil {
		return nil, nil, fmt.Errorf("restore: %w", err)
	}
	// The group's generation begins again when the broker has forgotten the group, so it alone would not always rise.
	r.generation = max(int64(claim.Generation()), r.newest+1, r.based.generation+1)
	why := r.doubt(committed)
	if why == "" {
		err := r.filter.Warm(ctx, a.reader, topics.LedgerEntries, claim.Partition(), committed, entryID)
		return r.book, nil, err
	}
	a.log.Warn("folding the partition again from the start of the journal", "partition", claim.Partition(), "to", committed, "reason", why)
	a.metrics.refolds.Inc()
	mark, err = a.refold(ctx, r, committed)
	return r.book, mark, err
}

// errEnough ends a reading early.
var errEnough = errors.New("enough was read")

// passMarkers lets the output be complete although the last records before the committed offset are markers, which no
// total tells of.
func (a *aggregator) passMarkers(ctx context.Context, r *restored, committed int64) error {
	if r.version >= committed {
		return nil
	}
	next := r.version
	err := a.reader.ReadPartition(ctx, topics.LedgerEntries, r.partition, next, committed, func(rec bus.Record) error {
		e, err := ledgercodec.Unmarshal(rec.Value)
		if err != nil || rec.Offset != next || !e.IsMarker() || e.Marker.Epoch > r.ended {
			return errEnough
		}
		next++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if next == committed {
		r.version = committed
	}
	return nil
}

// refold replaces the totals by those of the journal below the committed offset, and marks what the output says otherwise.
func (a *aggregator) refold(ctx context.Context, r *restored, committed int64) (*raised, error) {
	published := make(map[key]int64, len(r.totals))
	for k, t := range r.totals {
		if _, overwritten := r.dirty[k]; !overwritten {
			published[k] = t.Version
		}
	}
	r.drop()
	mark, err := a.foldFromStart(ctx, r.book, max(0, committed))
	if err != nil {
		return nil, fmt.Errorf("fold again: %w", err)
	}
	for k := range r.dirty {
		// A higher version is what was published and not committed: the entries behind it come again.
		if published[k] >= r.totals[k].Version {
			delete(r.dirty, k)
		}
	}
	return mark, nil
}

// foldFromStart folds the journal below an offset into a book without totals. It returns the last marker that began an
// epoch whose base the book does not know to be in the output.
func (a *aggregator) foldFromStart(ctx context.Context, b *book, to int64) (*raised, error) {
	var mark *raised
	next := int64(0)
	err := a.reader.ReadPartition(ctx, topics.LedgerEntries, b.partition, 0, to, func(rec bus.Record) error {
		if next == 0 && rec.Offset != 0 {
			return fmt.Errorf("the journal begins at %d: its older entries are gone, so totals cannot be folded from it", rec.Offset)
		}
		next = rec.Offset + 1
		t, err := b.take(rec)
		clear(b.gone) // what is in the output of those, the next restore reads and removes
		if t.raised != nil && t.raised.epoch > b.ended {
			mark = t.raised
		}
		return err
	})
	return mark, err
}

// entryID names the entry of a journal record, for the id filter.
func entryID(r bus.Record) (string, error) {
	e, err := ledgercodec.Unmarshal(r.Value)
	if err != nil {
		return "", fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
	}
	return e.ID, nil
}
