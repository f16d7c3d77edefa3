package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A dependency is asked again until it answers, and is ready from then on.
func TestDependencyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDependency("Kafka", slog.New(slog.DiscardHandler))
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
		d := NewDependency("Kafka", slog.New(slog.DiscardHandler))
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
