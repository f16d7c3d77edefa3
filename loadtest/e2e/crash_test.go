//go:build integration

package e2e

import (
	"context"
	"sync"
	"syscall"
	"testing"
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
// they came of is not committed. It freezes the process at an entry, looks, and lets it go on until it has caught that.
func (w *world) killBetween(t *testing.T) (uncommitted int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	process, err := w.status().Find("cost-attributor")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := w.Kafka()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := conn.Admin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(process.PID, s); err != nil {
			t.Fatalf("%s to the attributor: %v", s, err)
		}
	}
	seen := w.followEffects(ctx)
	err = rig.Poll(ctx, time.Millisecond, func() (bool, error) {
		select {
		case <-seen.news:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		signal(syscall.SIGSTOP)
		seen.quiet() // what the broker already has is on its way to us, and a commit on its way to the broker
		committed, err := admin.CommittedOffsets(ctx, attributorGroup, topics.UsageEvents)
		seen.mu.Lock()
		for p, next := range seen.next {
			uncommitted += max(0, next-max(0, committed[p].Offset))
		}
		seen.mu.Unlock()
		if err != nil || uncommitted > 0 {
			signal(syscall.SIGKILL)
			return true, err
		}
		signal(syscall.SIGCONT)
		return false, nil
	})
	if err != nil {
		t.Fatalf("the attributor was never caught between entries and commit: %v", err)
	}
	return uncommitted
}
