package pgstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/outbox"
)

// Group commit: what arrives while a transaction is under way goes out together as the next one, so concurrent writers
// share round trips and commits, and a lone one waits for nobody.
//
// A transaction costs as much beside its changes as a dozen of them. So after one of several changes the next waits for as
// many, for a moment: where so many call at once, others are about to come. And a second one is begun beside the first only for
// worthwhile changes (with fewer, two would take each other's callers away) or where the first is slow, since it may wait
// for a row that another replica has locked.
//
// Bounds: transactions at once, changes and bytes in one of them, and changes that wait; one more is refused at once, as
// ErrBusy.
const (
	maxTransactions = 2
	// several changes in a transaction come from callers at once; worthwhile is how many are worth to wait for.
	several    = 8
	worthwhile = 24
	// gatherTime is how long the next transaction waits for as many changes as the last had.
	gatherTime = 1500 * time.Microsecond
	maxChanges = 128
	maxBytes   = 4 << 20
	maxWaiting = 8192
	// slowTransaction is how long one may take until others no longer wait for it.
	slowTransaction = 50 * time.Millisecond
	// maxTransaction is how long a transaction may take where no caller has a deadline.
	maxTransaction = 30 * time.Second
)

var (
	// ErrBusy: too many changes wait for Postgres. Nothing was written.
	ErrBusy = errors.New("pgstore: too many changes wait")
	// errClosed: the store was closed. Nothing was written.
	errClosed = errors.New("pgstore: closed")
)

// change is one reservation's end, or what comes after it, on its way into a transaction.
type change struct {
	kind  kind
	row   Row
	event *outbox.Event // nil = none

	// caller is the context of who waits; where it has ended before the transaction begins, nothing is written.
	caller context.Context //nolint:containedctx // it travels with the change to another goroutine
	result chan result     // takes one
}

type key struct{ tenant, id string }

func (c *change) key() key { return key{c.row.Tenant, c.row.ReservationID} }

func (c *change) size() int {
	n := len(c.row.Call) + len(c.row.Answer)
	if c.event != nil {
		n += len(c.event.Payload)
	}
	return n
}

// result is what became of a change: done, or not because the row that holds is another one, or not known (err).
type result struct {
	done bool
	err  error
}

// group collects changes. It has goroutines only while changes wait.
type group struct {
	// write is one transaction. It may sort the batch, and gives a result for each change, or an error that says nothing
	// of any of them.
	write func(ctx context.Context, batch []*change) ([]result, error)
	// slow is slowTransaction; 0 = no transaction is slow.
	slow time.Duration
	// gathers is gatherTime; 0 = nothing waits for more.
	gathers time.Duration

	mu      sync.Mutex
	waiting []*change
	running int
	late    int // how many of those that run are slow
	wanted  int // who gathers is told through enough when so many wait
	enough  chan struct{}
	closed  bool
	workers sync.WaitGroup
}

// do writes c, together with whatever else waits. When ctx ends first, c may be written all the same, or not.
func (g *group) do(ctx context.Context, c *change) (bool, error) {
	c.caller, c.result = ctx, make(chan result, 1)
	if err := g.add(c); err != nil {
		return false, err
	}
	select {
	case r := <-c.result:
		return r.done, r.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (g *group) add(c *change) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return errClosed
	case len(g.waiting) >= maxWaiting:
		return ErrBusy
	}
	g.waiting = append(g.waiting, c)
	switch {
	case g.enough != nil:
		if len(g.waiting) >= g.wanted {
			g.gathered()
		}
	case g.running < maxTransactions && g.due(g.running):
		g.running++
		g.workers.Go(g.work)
	}
	return nil
}

// due says whether what waits should go out while others are under way.
func (g *group) due(others int) bool {
	return len(g.waiting) > 0 && (others == 0 || len(g.waiting) >= worthwhile || g.late > 0)
}

// close refuses new changes and returns when those that wait are written.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.gathered()
	g.mu.Unlock()
	g.workers.Wait()
}

func (g *group) work() {
	for batch := g.take(); batch != nil; batch = g.take() {
		g.watched(batch)
		runtime.Gosched() // whoever was answered and comes at once with the next change belongs to the next batch
		g.gather(len(batch))
	}
}

// gather waits until as many changes wait as the last transaction had, if it had several, or for a moment.
func (g *group) gather(last int) {
	g.mu.Lock()
	if g.gathers == 0 || last < several || g.running > 1 || len(g.waiting) >= min(last, worthwhile) || g.closed {
		g.mu.Unlock()
		return
	}
	enough := make(chan struct{})
	g.wanted, g.enough = min(last, worthwhile), enough
	g.mu.Unlock()
	timer := time.NewTimer(g.gathers)
	defer timer.Stop()
	select {
	case <-enough:
		return
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gathered()
}

// gathered lets go who gathers, if anybody does.
func (g *group) gathered() {
	if g.enough != nil {
		close(g.enough)
		g.enough = nil
	}
}

// watched commits a batch; nobody waits for it any longer once it is slow.
func (g *group) watched(batch []*change) {
	if g.slow == 0 {
		g.commit(batch)
		return
	}
	timer := time.AfterFunc(g.slow, g.relieve)
	g.commit(batch)
	if !timer.Stop() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.late--
	}
}

// relieve begins another transaction beside one that is slow, now or as soon as something waits.
func (g *group) relieve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late++
	if len(g.waiting) > 0 && g.running > 0 && g.running < maxTransactions {
		g.running++
		g.workers.Go(g.work)
	}
}

// take removes the next batch from what waits, at most one change of each reservation: two in one statement would not
// see each other. nil means that nothing is due, and that this worker is counted out.
func (g *group) take() []*change {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.due(g.running - 1) {
		g.running--
		return nil
	}
	var batch []*change
	taken, bytes := make(map[key]struct{}, min(len(g.waiting), maxChanges)), 0
	g.waiting = slices.DeleteFunc(g.waiting, func(c *change) bool {
		if _, twice := taken[c.key()]; twice || len(batch) == maxChanges || len(batch) > 0 && bytes+c.size() > maxBytes {
			return false
		}
		taken[c.key()] = struct{}{}
		batch, bytes = append(batch, c), bytes+c.size()
		return true
	})
	return batch
}

// commit writes a batch and tells who waits. If the batch fails, each half is written for itself, so that in the end only
// the change that failed it fails, and the others wait for a few more transactions instead of one each. Where it is not
// known whether the batch was committed, that is safe too: a change that is there already changes nothing again, and its
// caller is given the row that holds, its own.
func (g *group) commit(batch []*change) {
	batch = slices.DeleteFunc(batch, func(c *change) bool {
		err := c.caller.Err()
		if err != nil {
			c.result <- result{err: err}
		}
		return err != nil
	})
	if len(batch) == 0 {
		return
	}
	results, err := g.transact(batch)
	switch {
	case err == nil:
		for i, c := range batch {
			c.result <- results[i]
		}
	case len(batch) == 1:
		batch[0].result <- result{err: err}
	default:
		g.commit(batch[:len(batch)/2])
		g.commit(batch[len(batch)/2:])
	}
}

// transact gives a transaction until the last of its callers has given up.
func (g *group) transact(batch []*change) ([]result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].caller), maxTransaction)
	defer cancel()
	var last time.Time
	for _, c := range batch {
		at, bounded := c.caller.Deadline()
		if !bounded {
			return g.write(ctx, batch)
		}
		if at.After(last) {
			last = at
		}
	}
	ctx, cancel = context.WithDeadline(ctx, last)
	defer cancel()
	return g.write(ctx, batch)
}
