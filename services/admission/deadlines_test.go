package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Goal: a step has at least the time it may have, and at most a hundredth more, whenever it begins.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		const most = time.Second
		var group sync.WaitGroup
		for n := range 300 {
			group.Go(func() {
				<-time.After(time.Duration(n) * 3 * time.Millisecond)
				began := time.Now()
				ctx := d.within(most)
				<-ctx.Done()
				if took := time.Since(began); took < most || took > most+most/joins || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("begun after %d ms: %s, %v", 3*n, took, ctx.Err())
				}
			})
		}
		group.Wait()
	})
}

// Goal: what can be cancelled still can be; what cannot shares.
func TestBounded(t *testing.T) {
	s := &Service{cfg: Config{Deadline: time.Hour}}
	caller, hangUp := context.WithCancel(t.Context())
	ctx, cancel := s.bounded(caller)
	defer cancel()
	hangUp()
	if ctx.Err() == nil {
		t.Error("who hung up still waits")
	}
	a, done := s.bounded(context.Background())
	done()
	b, done := s.bounded(context.WithoutCancel(caller))
	done()
	if a != b || a.Err() != nil {
		t.Error("two steps at once do not share")
	}
}

func BenchmarkBounded(b *testing.B) {
	s := &Service{cfg: Config{Deadline: time.Second}}
	for name, ctx := range map[string]context.Context{"shared": context.Background(), "own": b.Context()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, cancel := s.bounded(ctx)
				cancel()
			}
		})
	}
}
