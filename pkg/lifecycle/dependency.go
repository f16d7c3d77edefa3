package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// The pause between two questions to a dependency that has not answered yet, and how long one question may take.
const (
	askAgain  = time.Second
	askWithin = 10 * time.Second
)

// Dependency is something outside that must have answered once before a part of the process can begin. Parts may wait
// for one dependency side by side.
type Dependency struct {
	name     string
	log      *slog.Logger
	answered atomic.Bool
}

// NewDependency names a dependency for the log, e.g. "Kafka".
func NewDependency(name string, log *slog.Logger) *Dependency {
	return &Dependency{name: name, log: log}
}

// Wait asks until there is an answer, logging every refusal. It returns false if ctx ends first.
func (d *Dependency) Wait(ctx context.Context, ask func(context.Context) error) bool {
	for {
		attempt, cancel := context.WithTimeout(ctx, askWithin)
		err := ask(attempt)
		cancel()
		if err == nil {
			d.answered.Store(true)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		d.log.Warn("waiting for "+d.name, "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
}

// Check is a readiness check: nil once Wait has had an answer.
func (d *Dependency) Check(context.Context) error {
	if !d.answered.Load() {
		return errors.New("has not answered yet")
	}
	return nil
}
