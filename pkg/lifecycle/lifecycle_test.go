package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

type trace struct {
	mu    sync.Mutex
	steps []string
}

func (t *trace) add(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, s)
}

func (t *trace) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.steps)
}

// part waits for its context, takes a while to clean up and then notes its end.
func (t *trace) part(name string, takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		t.add(name + " stopping")
		<-time.After(takes)
		t.add(name + " ended")
		return nil
	}
}

func group(deadline time.Duration) *Group { return New(slog.New(slog.DiscardHandler), deadline) }

func TestStopsInOrderOnSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		g := group(time.Minute)
		g.Add("store", Stores, tr.part("store", time.Second))
		g.Add("http", Intake, tr.part("http", 3*time.Second))
		g.Add("consumer", Consumers, tr.part("consumer", time.Second))
		g.signals <- syscall.SIGTERM
		if err := g.runParts(t.Context()); err != nil {
			t.Error(err)
		}
		want := []string{"http stopping", "http ended", "consumer stopping", "consumer ended", "store stopping", "store ended"}
		if !slices.Equal(tr.all(), want) {
			t.Errorf("order %v", tr.all())
		}
	})
}

func TestFirstErrorStopsAllAndAllErrorsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		a, b := errors.New("a broke"), errors.New("b broke while stopping")
		g := group(time.Minute)
		g.Add("a", Consumers, func(context.Context) error { return a })
		g.Add("b", Stores, func(ctx context.Context) error { <-ctx.Done(); return b })
		g.Add("c", Observe, tr.part("c", 0))
		err := g.runParts(t.Context())
		if !errors.Is(err, a) || !errors.Is(err, b) || !slices.Contains(tr.all(), "c ended") {
			t.Errorf("Run = %v, %v", err, tr.all())
		}
	})
}

func TestDeadlineNamesWhoDidNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		ctx, cancel := context.WithCancel(t.Context())
		g := group(10 * time.Second)
		g.Add("quick", Intake, tr.part("quick", time.Second))
		g.Add("hung", Consumers, tr.part("hung", time.Hour))
		g.Add("last", Observe, tr.part("last", 0))
		cancel()
		start := time.Now()
		err := g.runParts(ctx)
		if err == nil || !strings.Contains(err.Error(), "waiting for hung") || time.Since(start) != 10*time.Second {
			t.Errorf("Run = %v after %v", err, time.Since(start))
		}
		synctest.Wait()
		if !slices.Contains(tr.all(), "last stopping") {
			t.Error("the others were not told to stop")
		}
		<-time.After(time.Hour) // let the hung part end inside the bubble
	})
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		codes := make(chan int, 1)
		g := group(time.Hour)
		g.exit = func(code int) { codes <- code }
		g.Add("slow", Intake, tr.part("slow", time.Minute))
		g.signals <- syscall.SIGINT
		g.signals <- syscall.SIGINT
		if err := g.runParts(t.Context()); err != nil {
			t.Error(err)
		}
		if len(codes) != 1 || <-codes != 130 {
			t.Error("no exit with 130")
		}
	})
}

func TestEndsWhenAllPartsHaveEnded(t *testing.T) {
	g := group(time.Minute)
	g.Add("once", Intake, func(context.Context) error { return nil })
	if err := g.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
