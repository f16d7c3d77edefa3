package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// The pause between two questions to a dependency that has not answered yet, and how long one question may take.
	askAgain  = time.Second
	askWithin = 10 * time.Second
	// watchEvery is the pause between two questions to one that has.
	watchEvery = 5 * time.Second
	// AwayAfter is after how long without an answer a dependency counts as away. What waits for it goes on by itself when it
	// is back, so this is for those who look, and long against a restart or a busy moment.
	AwayAfter = 30 * time.Second
)

// Dependency is something outside that must have answered once before a part of the process can begin, and that is watched from
// then on. Parts may wait for one dependency side by side.
type Dependency struct {
	name  string
	log   *slog.Logger
	now   func() time.Time
	begun chan struct{} // closed at the first answer

	mu     sync.Mutex
	asked  bool      // there was an answer
	last   time.Time // of the last answer; before any, of the beginning
	failed error     // of the last question; nil where it was answered
}

// NewDependency names a dependency for the log, e.g. "Kafka".
func NewDependency(name string, log *slog.Logger, now func() time.Time) *Dependency {
	return &Dependency{name: name, log: log, now: now, begun: make(chan struct{}), last: now()}
}

// Wait asks until there is an answer, logging every refusal. It returns false if ctx ends first.
func (d *Dependency) Wait(ctx context.Context, ask func(context.Context) error) bool {
	for {
		attempt, cancel := context.WithTimeout(ctx, askWithin)
		err := ask(attempt)
		cancel()
		if err == nil {
			d.Note(nil)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		d.log.Warn("waiting for "+d.name, "error", err)
		if !pause(ctx, askAgain) {
			return false
		}
	}
}

// Watch asks again and again, from the first answer on, until ctx ends.
func (d *Dependency) Watch(ctx context.Context, ask func(context.Context) error) {
	select {
	case <-ctx.Done():
	case <-d.begun:
	}
	for pause(ctx, watchEvery) {
		attempt, cancel := context.WithTimeout(ctx, askWithin)
		err := ask(attempt)
		cancel()
		if ctx.Err() == nil {
			d.Note(err)
		}
	}
}

// Note takes down how a question ended: nil is an answer. The first failure is logged, and the first answer after it.
func (d *Dependency) Note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was := d.failed; err != nil && was == nil {
		d.log.Warn(d.name+" does not answer", "error", err)
	} else if err == nil && was != nil {
		d.log.Info(d.name + " answers again")
	}
	d.failed = err
	if err != nil {
		return
	}
	d.last = d.now()
	if !d.asked {
		d.asked = true
		close(d.begun)
	}
}

// Silent is how long ago the last answer was; before any, how long it has been waited for.
func (d *Dependency) Silent() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(0, d.now().Sub(d.last))
}

// Check is a readiness check: nil once there was an answer, and as long as the last one is not older than AwayAfter.
func (d *Dependency) Check(context.Context) error {
	silent := d.Silent()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.asked:
		return errors.New("has not answered yet")
	case silent <= AwayAfter:
		return nil
	case d.failed == nil:
		return fmt.Errorf("has not answered for %s", silent.Round(time.Second))
	default:
		return fmt.Errorf("has not answered for %s: %w", silent.Round(time.Second), d.failed)
	}
}

// pause waits for d and returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
