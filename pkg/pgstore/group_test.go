package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// gate is a database that takes one transaction at a time, when it is told to.
type gate struct {
	group
	open    chan struct{}
	mu      sync.Mutex
	batches [][]string
}

var errBad = errors.New("bad row")

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	g.write = func(ctx context.Context, batch []*change) ([]result, error) {
		select {
		case <-g.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		var ids []string
		results := make([]result, len(batch))
		for i, c := range batch {
			if c.row.ReservationID == "bad" {
				return nil, errBad
			}
			ids, results[i].done = append(ids, c.row.ReservationID), true
		}
		g.batches = append(g.batches, ids)
		return results, nil
	}
	return g
}

// start begins a change and returns where its outcome will be; it waits until the change is in the group.
func (g *gate) start(ctx context.Context, id string) <-chan error {
	out := make(chan error, 1)
	c := &change{row: Row{Tenant: "acme", ReservationID: id}, caller: ctx, result: make(chan result, 1)}
	if err := g.add(c); err != nil {
		out <- err
		return out
	}
	go func() { out <- (<-c.result).err }()
	return out
}

// fill occupies every transaction, so that what comes next waits.
func (g *gate) fill(t *testing.T) []<-chan error {
	all := []<-chan error{g.start(t.Context(), "first")}
	g.until(t, func() bool { return len(g.waiting) == 0 })
	for i := range (maxTransactions - 1) * worthwhile {
		all = append(all, g.start(t.Context(), fmt.Sprint("first", i)))
	}
	g.until(t, func() bool { return len(g.waiting) == 0 && g.running == maxTransactions })
	return all
}

// until waits for something about the group.
func (g *gate) until(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.After(2 * time.Minute); ; {
		g.group.mu.Lock()
		ok := what()
		g.group.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-deadline:
			t.Fatal("it does not come to that")
		case <-time.After(time.Millisecond):
		}
	}
}

func (g *gate) release() { close(g.open) }

// Goal: what waits goes out together, two changes of one reservation never do, and a bad one fails alone.
func TestGroupSharesTransactions(t *testing.T) {
	g := newGate()
	waiting := g.fill(t)
	for _, id := range []string{"a", "b", "a", "c", "a"} {
		waiting = append(waiting, g.start(t.Context(), id))
	}
	bad := g.start(t.Context(), "bad")
	g.release()
	for _, w := range waiting {
		if err := <-w; err != nil {
			t.Error(err)
		}
	}
	if err := <-bad; !errors.Is(err, errBad) {
		t.Errorf("the bad one: %v", err)
	}
	seen := map[string]int{}
	for _, b := range g.batches {
		once := map[string]bool{}
		for _, id := range b {
			if once[id] {
				t.Errorf("%s twice in %v", id, b)
			}
			once[id] = true
			seen[id]++
		}
	}
	if seen["a"] != 3 || seen["b"] != 1 || seen["c"] != 1 {
		t.Errorf("written %v", seen)
	}
	g.close()
	if g.running != 0 {
		t.Errorf("%d workers are left", g.running)
	}
}

// Goal: a lone change waits for nobody, a few wait for the transaction under way, and many do not.
func TestGroupSecondTransaction(t *testing.T) {
	g := newGate()
	waiting := []<-chan error{g.start(t.Context(), "lone")}
	g.until(t, func() bool { return len(g.waiting) == 0 })
	for i := range worthwhile - 1 {
		waiting = append(waiting, g.start(t.Context(), fmt.Sprint(i)))
	}
	g.until(t, func() bool { return len(g.waiting) == worthwhile-1 && g.running == 1 })
	waiting = append(waiting, g.start(t.Context(), "one more"))
	g.until(t, func() bool { return len(g.waiting) == 0 && g.running == 2 })
	few := g.start(t.Context(), "few")
	g.release()
	for _, w := range append(waiting, few) {
		if err := <-w; err != nil {
			t.Error(err)
		}
	}
	g.close()
	if len(g.waiting) != 0 || g.running != 0 {
		t.Errorf("%d wait, %d run", len(g.waiting), g.running)
	}
}

// Goal: after a transaction of several changes the next waits for as many, and goes without them after a moment or at the
// end; after one of few it waits for nobody.
func TestGroupGathers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		last, next int // changes of a transaction, and changes that come after it
		wants      int // how many the next transaction has; 0 = any number
		gathers    time.Duration
	}{
		{"as many come", several, several, several, time.Hour},
		{"many come after more", worthwhile + 5, worthwhile, worthwhile, time.Hour},
		{"fewer come", several, several - 1, 0, time.Millisecond},
		{"after few", several - 1, 1, 1, time.Hour},
		{"the end comes", several, 0, 0, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate()
			g.release()
			g.gathers = tt.gathers
			changes := func(n int) (list []*change) {
				for i := range n {
					list = append(list, &change{row: Row{ReservationID: fmt.Sprint(i)}, caller: t.Context(), result: make(chan result, 1)})
				}
				return list
			}
			last, next := changes(tt.last), changes(tt.next)
			g.waiting, g.running = append(g.waiting, last...), 1
			g.workers.Go(g.work)
			g.until(t, func() bool { return len(g.waiting) == 0 && (tt.wants <= 1 || g.enough != nil) })
			for _, c := range next {
				if err := g.add(c); err != nil {
					t.Error(err)
				}
			}
			for _, c := range append(last, next...) {
				if r := <-c.result; r.err != nil || !r.done {
					t.Errorf("%+v", r)
				}
			}
			g.close()
			if len(g.batches[0]) != tt.last || tt.wants > 0 && len(g.batches[1]) != tt.wants {
				t.Errorf("transactions %v", g.batches)
			}
		})
	}
}

// Goal: changes do not wait for a transaction that stands still.
func TestGroupSlowTransaction(t *testing.T) {
	g := newGate()
	stands := make(chan struct{})
	write := g.write
	g.write = func(ctx context.Context, batch []*change) ([]result, error) {
		if batch[0].row.ReservationID == "stuck" {
			<-stands
		}
		return write(ctx, batch)
	}
	g.slow = time.Millisecond
	g.release()
	stuck := g.start(t.Context(), "stuck")
	g.until(t, func() bool { return len(g.waiting) == 0 })
	for _, id := range []string{"next", "and the next"} {
		if err := <-g.start(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	close(stands)
	if err := <-stuck; err != nil {
		t.Error(err)
	}
	g.close()
	g.until(t, func() bool { return g.late == 0 && g.running == 0 })
}

// Goal: a batch has bounds, in changes and in bytes.
func TestGroupBatchBounds(t *testing.T) {
	g := newGate()
	waiting := g.fill(t)
	for i := range maxChanges + 5 {
		waiting = append(waiting, g.start(t.Context(), fmt.Sprint(i)))
	}
	g.release()
	for _, w := range waiting {
		if err := <-w; err != nil {
			t.Error(err)
		}
	}
	for _, b := range g.batches {
		if len(b) > maxChanges {
			t.Errorf("%d changes in one transaction", len(b))
		}
	}

	large := &group{running: 1}
	for i := range 3 {
		large.waiting = append(large.waiting, &change{row: Row{ReservationID: fmt.Sprint(i), Call: make([]byte, maxBytes*2/3)}})
	}
	for range 3 {
		if b := large.take(); len(b) != 1 {
			t.Errorf("%d large changes in one transaction", len(b))
		}
	}
}

// Goal: a caller who gave up before the transaction is not written; one more than may wait is told so; what waits at the
// end is written, and nothing after it.
func TestGroupGivesUpAndCloses(t *testing.T) {
	g := newGate()
	waiting := g.fill(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := g.do(ctx, &change{row: Row{ReservationID: "gone"}})
		done <- err
	}()
	g.until(t, func() bool { return len(g.waiting) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up was told %v", err)
	}
	for i := range maxWaiting - 1 {
		waiting = append(waiting, g.start(t.Context(), fmt.Sprint(i)))
	}
	if _, err := g.do(t.Context(), &change{}); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many was told %v", err)
	}
	g.release()
	g.close()
	if _, err := g.do(t.Context(), &change{}); !errors.Is(err, errClosed) {
		t.Errorf("after the close: %v", err)
	}
	for _, w := range waiting {
		if err := <-w; err != nil {
			t.Error(err)
		}
	}
	for _, b := range g.batches {
		for _, id := range b {
			if id == "gone" {
				t.Error("who gave up was written")
			}
		}
	}
}

// Goal: a transaction lasts no longer than the most patient of its callers.
func TestGroupDeadline(t *testing.T) {
	g := newGate() // never opened
	var waiting []<-chan error
	for i, patience := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		waiting = append(waiting, g.start(ctx, fmt.Sprint(i)))
	}
	for _, w := range waiting {
		select {
		case <-w:
		case <-t.Context().Done():
			t.Fatal("it hangs")
		}
	}
	g.close()
}

func BenchmarkGroup(b *testing.B) {
	g := group{write: func(_ context.Context, batch []*change) ([]result, error) { return make([]result, len(batch)), nil }}
	b.ReportAllocs()
	b.SetParallelism(25)
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if _, err := g.do(context.Background(), &change{row: Row{Tenant: "acme", ReservationID: fmt.Sprint(n)}}); err != nil {
				b.Error(err)
			}
		}
	})
}
