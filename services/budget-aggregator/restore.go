package budgetaggregator

import (
	"context"
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
}

func (r *restored) read(rec bus.Record) error {
	r.readTo = rec.Offset + 1
	if rec.Value == nil {
		return nil
	}
	k, t, m, err := decode(rec.Value)
	if err != nil {
		r.unreadable++
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

// restore rebuilds the state of a partition as of the committed offset or later.
func (a *aggregator) restore(ctx context.Context, claim bus.Claim, committed int64) (b *book, err error) {
	r := &restored{book: newBook(claim.Partition(), a.room), suspect: map[key]struct{}{}}
	defer func() {
		if err != nil {
			r.drop()
		}
	}()
	if err := a.reader.ReadPartition(ctx, topics.BudgetWindows, claim.Partition(), 0, -1, r.read); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	// The group's generation begins again when the broker has forgotten the group, so it alone would not always rise.
	r.generation = max(int64(claim.Generation()), r.newest+1)
	why := r.doubt(committed)
	if why == "" {
		err := r.filter.Warm(ctx, a.reader, topics.LedgerEntries, claim.Partition(), committed, filterIDs, entryID)
		return r.book, err
	}
	a.log.Warn("folding the partition again from the start of the journal", "partition", claim.Partition(), "to", committed, "reason", why)
	a.metrics.refolds.Inc()
	return r.book, a.refold(ctx, r, committed)
}

// refold replaces the totals by those of the journal below the committed offset, and marks what the output says otherwise.
func (a *aggregator) refold(ctx context.Context, r *restored, committed int64) error {
	published := make(map[key]int64, len(r.totals))
	for k, t := range r.totals {
		if _, overwritten := r.dirty[k]; !overwritten {
			published[k] = t.Version
		}
	}
	r.drop()
	next := int64(0)
	err := a.reader.ReadPartition(ctx, topics.LedgerEntries, r.partition, 0, max(0, committed), func(rec bus.Record) error {
		if next == 0 && rec.Offset != 0 {
			return fmt.Errorf("the journal begins at %d: its older entries are gone, so totals cannot be folded from it", rec.Offset)
		}
		next = rec.Offset + 1
		_, err := r.take(rec)
		return err
	})
	if err != nil {
		return fmt.Errorf("fold again: %w", err)
	}
	for k := range r.dirty {
		// A higher version is what was published and not committed: the entries behind it come again.
		if published[k] >= r.totals[k].Version {
			delete(r.dirty, k)
		}
	}
	return nil
}

// entryID names the entry of a journal record, for the id filter.
func entryID(r bus.Record) (string, error) {
	e, err := ledgercodec.Unmarshal(r.Value)
	if err != nil {
		return "", fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
	}
	return e.ID, nil
}
