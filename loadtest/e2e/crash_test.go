//go:build integration

package e2e

import (
	"context"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/loadtest/rig"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

const attributorGroup = "weir.cost-attributor"

// effects follows the journal: for each partition, the first source offset that no entry has come of yet.
type effects struct {
	mu   sync.Mutex
	next map[int32]int64
	news chan struct{} // holds a token when entries have come since it was taken
}

func (w *world) followEffects(ctx context.Context) *effects {
	w.t.Helper()
	conn, err := w.Kafka()
	if err != nil {
		w.t.Fatal(err)
	}
	e := &effects{next: map[int32]int64{}, news: make(chan struct{}, 1)}
	follower := conn.Follow(topics.LedgerEntries, func(rec bus.Record) error {
		var m weirv1.LedgerEntry
		if err := proto.Unmarshal(rec.Value, &m); err != nil {
			return err
		}
		e.mu.Lock()
		e.next[m.GetSourcePartition()] = max(e.next[m.GetSourcePartition()], m.GetSourceOffset()+1)
		e.mu.Unlock()
		select {
		case e.news <- struct{}{}:
		default:
		}
		return nil
	})
	go func() { _ = follower.Run(ctx) }() // ends with ctx, without an error
	return e
}

// quiet returns when no entry has come for a moment.
func (e *effects) quiet() {
	for {
		select {
		case <-e.news:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// killBetween kills the attributor at the one moment that matters: its entries are in the journal, and the offset that
// they came of is not committed. It freezes the process at an entry, looks, and lets it go on until it has caught that. more
// makes some more calls: without any there would be no entry to wait for.
func (w *world) killBetween(more func()) (uncommitted int64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	process, err := w.status().Find("cost-attributor")
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := w.Kafka()
	if err != nil {
		w.t.Fatal(err)
	}
	admin, err := conn.Admin()
	if err != nil {
		w.t.Fatal(err)
	}
	defer admin.Close()
	signal := func(s syscall.Signal) {
		if err := process.Signal(s); err != nil {
			w.t.Fatal(err)
		}
	}
	seen := w.followEffects(ctx)
	behind := func() (n int64, err error) {
		committed, err := admin.CommittedOffsets(ctx, attributorGroup, topics.UsageEvents)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for p, next := range seen.next {
			n += max(0, next-max(0, committed[p].Offset))
		}
		return n, err
	}
	err = rig.Poll(ctx, time.Millisecond, func() (bool, error) {
		select {
		case <-seen.news:
		case <-time.After(time.Second):
			more()
			return false, nil
		}
		signal(syscall.SIGSTOP)
		uncommitted = 1
		var err error
		// What the broker already has is on its way to us, and a commit may be on its way through the broker: so it is asked twice.
		for asked := 0; asked < 2 && uncommitted > 0 && err == nil; asked++ {
			seen.quiet()
			uncommitted, err = behind()
		}
		if err != nil || uncommitted > 0 {
			signal(syscall.SIGKILL)
			return true, err
		}
		signal(syscall.SIGCONT)
		more()
		return false, nil
	})
	if err != nil {
		w.t.Fatalf("the attributor was never caught between entries and commit: %v", err)
	}
	return uncommitted
}
