package outboxrelay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/outbox"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// answerWithin bounds every call of the database: a server that vanished without a word must not hold the relay.
	answerWithin = time.Minute
	// measureEvery is short against the age at which anybody is called.
	measureEvery = 2 * time.Second
)

// relay drains one database.
type relay struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	// produce is bus.Producer.Produce: nil only when all records are acknowledged.
	produce   func(ctx context.Context, records ...bus.Record) error
	writes    []bus.Topic
	byDefault bus.Topic

	postgres    *lifecycle.Dependency // asked whenever the backlog is measured
	standing    atomic.Bool           // has led or stood by
	rotatedAt   time.Time
	sinceRotate int
}

// run leads or stands by until ctx ends. Only a refusal ends it before, with an error.
func (r *relay) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := r.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, outbox.ErrForeign):
			return err
		}
		r.metrics.failures.WithLabelValues(onPostgres).Inc()
		r.log.Warn("session ended, will reconnect", "error", err)
		pause(ctx, r.cfg.Standby)
	}
	return nil
}

// session opens a connection, waits for the lead and drains until something breaks.
func (r *relay) session(ctx context.Context) error {
	s, err := ask(ctx, func(ctx context.Context) (*outbox.Session, error) { return outbox.Open(ctx, r.cfg.Postgres) })
	if err != nil {
		return err
	}
	defer hangUp(ctx, s)
	for said := false; ; said = true {
		led, err := ask(ctx, s.TryLead)
		if err != nil {
			return err
		}
		r.postgres.Note(nil)
		r.standing.Store(true)
		if led {
			break
		}
		if !said {
			r.log.Info("standing by: another relay leads")
		}
		pause(ctx, r.cfg.Standby)
	}
	r.log.Info("leading")
	r.metrics.leads.Store(true)
	defer r.metrics.leads.Store(false)
	return r.lead(ctx, s)
}

func (r *relay) lead(ctx context.Context, s *outbox.Session) error {
	for ctx.Err() == nil {
		n, err := r.step(ctx, s)
		if err != nil {
			return err
		}
		if err := r.rotate(ctx, s, n); err != nil {
			return err
		}
		if n == 0 {
			pause(ctx, r.cfg.Poll)
		}
	}
	return ctx.Err()
}

// step publishes one batch and records it, in this order. It returns the number of rows dealt with.
func (r *relay) step(ctx context.Context, s *outbox.Session) (int, error) {
	batch, err := ask(ctx, func(ctx context.Context) (outbox.Batch, error) {
		return s.Next(ctx, outbox.Limits{Rows: r.cfg.BatchRows, Bytes: int64(r.cfg.BatchBytes)})
	})
	if err != nil || len(batch.Rows) == 0 {
		return 0, err
	}
	out, parked := records(batch.Rows, r.writes, r.byDefault)
	finish, cancel := withGrace(ctx, r.cfg.Grace)
	defer cancel()
	if err := r.publish(ctx, finish, s, out); err != nil {
		return 0, err
	}
	if err := within(finish, func(ctx context.Context) error { return s.Advance(ctx, batch, parked) }); err != nil {
		return 0, err
	}
	for _, p := range parked {
		r.metrics.parked.WithLabelValues(p.Reason).Inc()
		r.log.Error("event parked: Kafka can never take it", "seq", p.Seq, obs.ErrID, p.Reason)
	}
	return len(batch.Rows), nil
}

// publish repeats until all records are acknowledged. It gives up when the relay is to stop or has lost its session:
// the rows are still in the table. Attempts run under finish, so that one in flight is not cut off by the order to stop.
func (r *relay) publish(ctx, finish context.Context, s *outbox.Session, out []bus.Record) error {
	for wait := retryMin; len(out) > 0; wait = min(2*wait, retryMax) {
		err := r.produce(finish, out...)
		if err == nil {
			break
		}
		r.metrics.failures.WithLabelValues(onKafka).Inc()
		r.log.Warn("not acknowledged, will retry", "records", len(out), "error", err)
		pause(ctx, wait)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before the acknowledgement: %w", err)
		}
		if err := within(ctx, s.Check); err != nil {
			return err
		}
	}
	for _, o := range out {
		r.metrics.published.WithLabelValues(o.Topic.Name()).Inc()
	}
	return nil
}

// rotate empties published slots when it is time: it costs a few look-ups, so not after every batch.
func (r *relay) rotate(ctx context.Context, s *outbox.Session, published int) error {
	r.sinceRotate += published
	now := r.now()
	if now.Sub(r.rotatedAt) < r.cfg.Rotate && r.sinceRotate < r.cfg.RotateRows {
		return nil
	}
	r.rotatedAt, r.sinceRotate = now, 0
	done, err := ask(ctx, s.Rotate)
	if err != nil {
		return err
	}
	r.metrics.held.Set(float64(done.Held))
	r.metrics.emptied.Add(float64(done.Emptied))
	return nil
}

// measure keeps the gauges current on a connection of its own until ctx ends.
func (r *relay) measure(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.measureSession(ctx); err != nil && ctx.Err() == nil {
			r.postgres.Note(err)
			r.metrics.failures.WithLabelValues(onPostgres).Inc()
			r.log.Warn("cannot measure the backlog", "error", err)
			pause(ctx, r.cfg.Standby)
		}
	}
	return nil
}

func (r *relay) measureSession(ctx context.Context) error {
	s, err := ask(ctx, func(ctx context.Context) (*outbox.Session, error) { return outbox.Open(ctx, r.cfg.Postgres) })
	if err != nil {
		return err
	}
	defer hangUp(ctx, s)
	for {
		b, err := ask(ctx, s.Measure)
		if err != nil {
			return err
		}
		r.postgres.Note(nil)
		r.metrics.backlog.Set(float64(b.Rows))
		r.metrics.measured(b.Oldest)
		r.metrics.parkedRows.Set(float64(b.Parked))
		if !pause(ctx, measureEvery) {
			return nil
		}
	}
}

// ask calls the database with a deadline.
func ask[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return call(ctx)
}

// within is ask for calls without an answer.
func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return call(ctx)
}

// hangUp closes a session. The server frees the lead when the connection ends, however it ends.
func hangUp(ctx context.Context, s *outbox.Session) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.Close(closing)
}

// pause waits for d and returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// withGrace returns a context that ends d after ctx does.
func withGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	graceful, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(graceful, d)
		cancel()
	})
	return graceful, func() { stop(); cancel() }
}
