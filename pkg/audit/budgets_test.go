package audit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// Goal: Redis is asked for many items at a time, no more than stated, and what it says is handed on in order; the first error
// ends it. Method: a first batch whose reads wait for each other.
func TestEachRead(t *testing.T) {
	items := make([]int, 2*readAtOnce+3)
	for i := range items {
		items[i] = i
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	now, most := 0, 0
	all := make(chan struct{})
	read := func(ctx context.Context, n int) (int, error) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == readAtOnce && n < readAtOnce {
			close(all)
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			now--
		}()
		select {
		case <-all:
			return -n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	var got []int
	check := func(n, found int) {
		if found != -n {
			t.Errorf("%d has what was read for %d", n, -found)
		}
		got = append(got, n)
	}
	if err := eachRead(ctx, items, read, check); err != nil || !slices.Equal(got, items) || most != readAtOnce {
		t.Errorf("%v: %d of %d items, at most %d at a time", err, len(got), len(items), most)
	}
	away := errors.New("redis is away")
	failing := func(_ context.Context, n int) (int, error) {
		if n == readAtOnce+1 {
			return 0, away
		}
		return -n, nil
	}
	got = nil
	if err := eachRead(ctx, items, failing, check); !errors.Is(err, away) || len(got) != readAtOnce {
		t.Errorf("%v after %d items", err, len(got))
	}
}
