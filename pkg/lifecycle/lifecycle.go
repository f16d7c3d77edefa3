// Package lifecycle runs the parts of a process together and stops them in order.
//
// It owns signals, the shutdown order and the shutdown deadline. It knows nothing about what the parts do.
// The order of a service: intake first, then consumers (finish, commit, leave), producers and relays, stores, and the
// observability server last, so that the shutdown can be watched.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The usual stop orders, lowest first. Parts of one order are stopped together.
const (
	Intake    = 10 // HTTP listeners: no new work
	Consumers = 20 // finish the batch in flight, commit, leave the group
	Producers = 30 // flush
	Stores    = 40 // close connections
	Observe   = 50 // metrics and health
)

// Group is the parts of one process.
type Group struct {
	log      *slog.Logger
	deadline time.Duration
	parts    []*part
	signals  chan os.Signal
	exit     func(code int)
}

type part struct {
	name string
	stop int
	run  func(ctx context.Context) error
	end  context.CancelFunc
	done chan struct{}
}

// New makes an empty group. deadline bounds the whole shutdown; keep it below the orchestrator's own (Kubernetes: 30 s).
func New(log *slog.Logger, deadline time.Duration) *Group {
	return &Group{log: log, deadline: deadline, signals: make(chan os.Signal, 2), exit: os.Exit}
}

// Add adds a part. run blocks until its context ends, then cleans up and returns nil; an error at any time stops the
// whole group. stop is its place in the shutdown order, lowest first. A part that has nothing to do until the shutdown
// (closing a store) waits for its context.
func (g *Group) Add(name string, stop int, run func(ctx context.Context) error) {
	g.parts = append(g.parts, &part{name: name, stop: stop, run: run, done: make(chan struct{})})
}

// Run starts all parts and returns when all have ended: after SIGTERM or SIGINT, the end of ctx, or the first error. It
// returns all errors, and one that names the parts which did not end before the deadline. A second signal ends the
// process at once with code 130.
func (g *Group) Run(ctx context.Context) error {
	signal.Notify(g.signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(g.signals)
	return g.runParts(ctx)
}

func (g *Group) runParts(ctx context.Context) error {
	failed := make(chan error, len(g.parts))
	allDone := make(chan struct{})
	for _, p := range g.parts {
		// Not ctx itself: its end must stop the parts in order, not all at once.
		partCtx, end := context.WithCancel(context.WithoutCancel(ctx))
		p.end = end
		go func() {
			defer close(p.done)
			if err := p.run(partCtx); err != nil && !errors.Is(err, context.Canceled) {
				failed <- fmt.Errorf("%s: %w", p.name, err)
			}
		}()
	}
	go func() {
		defer close(allDone)
		for _, p := range g.parts {
			<-p.done
		}
	}()
	var first error
	select {
	case <-ctx.Done():
		g.log.Info("stopping", "reason", "context ended")
	case s := <-g.signals:
		g.log.Info("stopping", "reason", s.String())
	case first = <-failed:
		g.log.Error("stopping", "error", first)
	case <-allDone:
	}
	return errors.Join(first, g.shutdown(failed))
}

func (g *Group) shutdown(failed <-chan error) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case s := <-g.signals:
			g.log.Warn("second signal: exiting at once", "signal", s.String())
			g.exit(130)
		case <-over:
		}
	}()
	timeout := time.NewTimer(g.deadline)
	defer timeout.Stop()
	byOrder := slices.Clone(g.parts)
	slices.SortStableFunc(byOrder, func(a, b *part) int { return a.stop - b.stop })
	var errs []error
	for len(byOrder) > 0 && len(errs) == 0 {
		n := slices.IndexFunc(byOrder, func(p *part) bool { return p.stop != byOrder[0].stop })
		if n < 0 {
			n = len(byOrder)
		}
		errs = append(errs, stopTogether(byOrder[:n], timeout.C)...)
		byOrder = byOrder[n:]
	}
	for _, p := range g.parts {
		p.end() // past the deadline: everyone at once
	}
	for {
		select {
		case err := <-failed:
			errs = append(errs, err)
		default:
			return errors.Join(errs...)
		}
	}
}

func stopTogether(parts []*part, timeout <-chan time.Time) []error {
	for _, p := range parts {
		p.end()
	}
	for i, p := range parts {
		select {
		case <-p.done:
		case <-timeout:
			var names []string
			for _, late := range parts[i:] {
				names = append(names, late.name)
			}
			return []error{fmt.Errorf("shutdown deadline passed while waiting for %s", strings.Join(names, ", "))}
		}
	}
	return nil
}
