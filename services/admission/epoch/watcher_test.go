package epoch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/pgstore"
)

// Goal: nobody is served but by a row that was read, is ready and is at most 2 s old, and whoever is refused is told for how long.
func TestCurrent(t *testing.T) {
	read := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ready := pgstore.RedisEpoch{Epoch: 8, Lost: 7, RaisedAt: read, LostActiveAt: read, Now: read.Add(time.Hour)}
	making := ready
	making.Recovering, making.Now = true, read.Add(time.Second)
	cfg := Config{MaxLease: 4 * time.Second, Deadline: time.Second} // so the last lease ends 7 s after the raise
	for name, c := range map[string]struct {
		row   pgstore.RedisEpoch
		err   error
		never bool
		after time.Duration
		want  State
		why   error
	}{
		"ready":                   {row: ready, after: 2 * time.Second, want: State{Epoch: 8}},
		"too old":                 {row: ready, after: 2*time.Second + 1, why: errOld},
		"nothing was read":        {never: true, why: ErrUnknown},
		"refused":                 {row: ready, err: ErrRefused, why: ErrRefused},
		"refused, and old":        {row: ready, err: ErrOutdated, after: time.Hour, why: ErrOutdated},
		"recovering":              {row: making, want: State{Epoch: 8, Recovering: true, Left: 6 * time.Second, Retry: 8 * time.Second}},
		"recovering, later":       {row: making, after: 2 * time.Second, want: State{Epoch: 8, Recovering: true, Left: 4 * time.Second, Retry: 6 * time.Second}},
		"recovering, and too old": {row: making, after: 3 * time.Second, why: errOld},
	} {
		var s state
		if !c.never {
			s.set(c.row, read, c.err)
		}
		if got, err := s.current(read.Add(c.after), cfg.leaseReach()); got != c.want || !errors.Is(err, c.why) {
			t.Errorf("%s: %+v %v, want %+v %v", name, got, err, c.want, c.why)
		}
	}
}

// Goal: a reading that was overtaken by a later one does not take its place.
func TestOvertaken(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	w := Fixed(func() time.Time { return at }, pgstore.RedisEpoch{Epoch: 8}, at, nil)
	w.state.set(pgstore.RedisEpoch{Epoch: 7}, at.Add(-1), ErrRefused)
	if now, err := w.Current(); err != nil || now.Epoch != 8 || w.Last().Epoch != 8 {
		t.Errorf("%+v %v", now, err)
	}
}

// Goal: a reader of an outdated replica leaves its group at once, and its part ends no sooner than the process; one that fails
// says so.
func TestUntilOutdated(t *testing.T) {
	w := &Watcher{}
	w.outdated, w.retire = context.WithCancelCause(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	left, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.UntilOutdated(func(ctx context.Context) error { <-ctx.Done(); close(left); return nil })(ctx)
	}()
	w.retire(ErrOutdated)
	<-left
	select {
	case err := <-ended:
		t.Errorf("its part has ended: %v", err)
	default:
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	if err := w.UntilOutdated(func(context.Context) error { return failed })(t.Context()); !errors.Is(err, failed) {
		t.Error(err)
	}
}
