package breaker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/breaker"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// limitsOf is the contract's bounds of an execution at a time; zero values where there is no such tenant.
type limitsOf func(tenant string, at time.Time) tenant.Execution

// book is what one partition's journal says about its executions. It belongs to the partition's worker.
type book struct {
	filter  *journal.Filter
	next    int64 // offset from which on entries are not yet folded
	newest  time.Time
	roots   map[root]execution
	pending []ended // trips not yet published; they outlive a failed publication
	room    *room
	maxAge  time.Duration
	now     func() time.Time
	sweepAt int
}

type execution struct {
	state breaker.State
	seen  time.Time
	who   owner
}

// room counts the executions of all partitions against one bound.
type room struct {
	used  atomic.Int64
	bound int64
}

// firstSweep is the number of executions at which a partition first looks for old ones; after that, each time they have
// doubled.
const firstSweep = 10_000

func newBook(r *room, maxAge time.Duration, now func() time.Time) *book {
	return &book{now: now, filter: journal.NewFilter(), roots: map[root]execution{}, room: r, maxAge: maxAge, sweepAt: firstSweep}
}

// take folds one journal record, once: a record below next is passed over. widest is the fan-out of its execution.
func (b *book) take(r bus.Record, limits limitsOf) (duplicate bool, widest int64, err error) {
	if r.Offset < b.next {
		return false, 0, nil
	}
	e, err := ledgercodec.Unmarshal(r.Value)
	if err != nil {
		return false, 0, fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
	}
	recorded := e.RecordedAt
	if now := b.now(); recorded.After(now) { // its producer's clock is ahead, which must make no other execution old
		recorded = now
	}
	if recorded.After(b.newest) {
		b.newest = recorded
	}
	if b.filter.Seen(e.ID, r.Offset, r.Timestamp) {
		b.next = r.Offset + 1
		return true, 0, nil
	}
	s, ok := signal(e)
	if !ok {
		b.next = r.Offset + 1
		return false, 0, nil
	}
	id := root{e.TenantID, e.Lineage.RootExecutionID}
	x, known := b.roots[id]
	if !known {
		if err := b.enter(); err != nil {
			return false, 0, fmt.Errorf("journal %d/%d: %w", r.Partition, r.Offset, err)
		}
	}
	state, trip := breaker.Step(x.state, s, limits(id.tenant, s.At))
	if l := e.Lineage; l.Depth == 0 && x.who.agent == "" {
		x.who = owner{l.AgentID, l.CostCenter}
	}
	b.roots[id] = execution{state, recorded, x.who}
	if trip != nil {
		b.pending = append(b.pending, ended{id, *trip, x.who})
	}
	b.next = r.Offset + 1
	return false, state.Widest(), nil
}

// enter makes room for one more execution.
func (b *book) enter() error {
	if len(b.roots) >= b.sweepAt || b.room.used.Load() >= b.room.bound {
		b.sweep()
		b.sweepAt = max(firstSweep, 2*len(b.roots))
	}
	if b.room.used.Add(1) > b.room.bound {
		b.room.used.Add(-1)
		return fmt.Errorf("-max-executions (%d) is reached and none is older than -max-root-age", b.room.bound)
	}
	return nil
}

// sweep forgets executions that have been silent for longer than a root may live, by the time of the journal.
func (b *book) sweep() {
	for id, x := range b.roots {
		if b.newest.Sub(x.seen) > b.maxAge {
			delete(b.roots, id)
			b.room.used.Add(-1)
		}
	}
}

// drop forgets everything, and gives its room back.
func (b *book) drop() {
	b.room.used.Add(-int64(len(b.roots)))
	clear(b.roots)
}
