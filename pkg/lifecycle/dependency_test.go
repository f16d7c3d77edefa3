package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A dependency is asked again until it answers, and is ready from then on.
func TestDependencyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDependency("Kafka", slog.New(slog.DiscardHandler), time.Now)
		if d.Check(t.Context()) == nil {
			t.Error("ready before it was asked")
		}
		asked, start := 0, time.Now()
		ok := d.Wait(t.Context(), func(context.Context) error {
			if asked++; asked < 4 {
				return errors.New("away")
			}
			return nil
		})
		if !ok || asked != 4 || time.Since(start) != 3*askAgain || d.Check(t.Context()) != nil {
			t.Errorf("ok %v, asked %d in %s, check %v", ok, asked, time.Since(start), d.Check(t.Context()))
		}
	})
}

// A hung question is given up, and the end of the process ends the waiting.
func TestDependencyHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDependency("Kafka", slog.New(slog.DiscardHandler), time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), 3*askWithin)
		defer cancel()
		asked := 0
		if d.Wait(ctx, func(ctx context.Context) error { asked++; <-ctx.Done(); return ctx.Err() }) {
			t.Error("a hung dependency answered")
		}
		if asked != 3 || d.Check(t.Context()) == nil {
			t.Errorf("asked %d times", asked)
		}
	})
}

// Goal: a dependency that fell silent is told as away, after long enough that a restart is none, and as there again when it
// answers. Method: it is watched, and hangs, refuses and answers by turns.
func TestDependencyFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ask atomic.Pointer[func(context.Context) error]
		answer := func(f func(context.Context) error) { ask.Store(&f) }
		asking := func(ctx context.Context) error { return (*ask.Load())(ctx) }
		answer(func(context.Context) error { return nil })
		d := NewDependency("Kafka", slog.New(slog.DiscardHandler), time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.Watch(ctx, asking)
		<-time.After(time.Minute)
		if d.Check(ctx) == nil || d.Silent() < time.Minute {
			t.Error("what was never waited for has answered")
		}
		d.Wait(ctx, asking)
		<-time.After(time.Minute)
		if err := d.Check(ctx); err != nil || d.Silent() > watchEvery {
			t.Errorf("it answers: %v, silent for %s", err, d.Silent())
		}
		away := errors.New("connection refused")
		for name, f := range map[string]func(context.Context) error{
			"refuses": func(context.Context) error { return away },
			"hangs":   func(ctx context.Context) error { <-ctx.Done(); return away },
		} {
			answer(f)
			<-time.After(AwayAfter - watchEvery)
			if err := d.Check(ctx); err != nil {
				t.Errorf("%s: away too soon: %v", name, err)
			}
			<-time.After(2 * watchEvery)
			if err := d.Check(ctx); !errors.Is(err, away) || d.Silent() < AwayAfter {
				t.Errorf("%s: %v, silent for %s", name, err, d.Silent())
			}
			answer(func(context.Context) error { return nil })
			<-time.After(askWithin + 2*watchEvery)
			if err := d.Check(ctx); err != nil {
				t.Errorf("it answers again: %v", err)
			}
		}
	})
}
