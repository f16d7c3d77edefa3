package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// worker owns one assigned partition from assignment to revocation: restore, then batch after batch, each handled until
// it succeeds and committed before the next.
type worker struct {
	c         *Consumer
	tp        topicPartition
	claim     Claim
	committed Committed // where the group stands; written by the worker's own goroutine only
	startAt   int64

	soft, hard   context.Context // soft ends: start nothing new. hard ends: give up the batch in flight.
	stopSoft     context.CancelFunc
	abort        context.CancelFunc
	more         chan struct{} // capacity 1: there may be a batch to cut
	done         chan struct{}
	mu           sync.Mutex
	isOpen       bool
	paused       bool
	pending      []Record
	pendingBytes int
	highWater    int64
	settled      int64 // everything below it is committed; below 0 before the first record of a group without a commit
}

func startWorker(c *Consumer, tp topicPartition, claim Claim, committed Committed) *worker {
	w := &worker{c: c, tp: tp, claim: claim, committed: committed, settled: committed.Offset, startAt: AtCommitted,
		more: make(chan struct{}, 1), done: make(chan struct{})}
	w.hard, w.abort = context.WithCancel(c.base)
	w.soft, w.stopSoft = context.WithCancel(w.hard)
	w.claim.commit = w.commit
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.done)
	defer w.abort()
	if !w.restore() {
		return
	}
	for batch := w.next(); batch != nil; batch = w.next() {
		if !w.process(batch) {
			return
		}
	}
}

func (w *worker) restore() bool {
	if hook := w.c.cfg.OnAssigned; hook != nil {
		ok := w.retry(w.soft, "restore", func(ctx context.Context) (err error) {
			w.startAt, err = hook(ctx, w.claim, w.committed)
			return err
		})
		if !ok {
			return false
		}
	}
	w.c.notify(w, nil)
	return true
}

// open lets records flow; it is called by the poll loop once the fetch position is right.
func (w *worker) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.startAt >= 0 {
		w.pending, w.pendingBytes = nil, 0 // from before the move; they are fetched again if they are still due
	}
	w.isOpen = true
	w.resume()
	w.signal()
}

// offer queues fetched records, and pauses the partition's fetch at the bound.
func (w *worker) offer(fetched []*kgo.Record, highWater int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range fetched {
		r := fromKgo(w.claim.topic, k)
		w.pending = append(w.pending, r)
		w.pendingBytes += r.Size()
	}
	w.highWater = highWater
	if w.settled < 0 {
		w.settled = fetched[0].Offset
	}
	w.setLag()
	if !w.paused && (len(w.pending) >= w.c.cfg.MaxPending || w.pendingBytes >= w.c.cfg.MaxPendingBytes) {
		w.paused = true
		w.c.cl.PauseFetchPartitions(map[string][]int32{w.tp.topic: {w.tp.partition}})
	}
	w.signal()
}

// next waits for a batch; nil means that the worker is to stop.
func (w *worker) next() []Record {
	var linger <-chan time.Time
	full := w.c.cfg.Linger == 0
	for w.soft.Err() == nil {
		batch, waiting := w.cut(full)
		if batch != nil {
			return batch
		}
		if waiting && linger == nil {
			linger = time.After(w.c.cfg.Linger)
		}
		select {
		case <-w.soft.Done():
		case <-w.more:
		case <-linger:
			full = true
		}
	}
	return nil
}

// cut takes up to MaxBatch records, if there are that many or fewer will do; waiting says that there are some.
func (w *worker) cut(partial bool) (batch []Record, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.pending), w.c.cfg.MaxBatch)
	if !w.isOpen || n == 0 || n < w.c.cfg.MaxBatch && !partial {
		return nil, n > 0
	}
	batch, w.pending = w.pending[:n:n], w.pending[n:]
	for i := range batch {
		w.pendingBytes -= batch[i].Size()
	}
	if w.paused && len(w.pending) <= w.c.cfg.MaxPending/2 && w.pendingBytes <= w.c.cfg.MaxPendingBytes/2 {
		w.resume()
	}
	if len(w.pending) > 0 {
		w.signal()
	}
	return batch, false
}

// process handles a batch until it succeeds and commits it; false means that the worker is to stop.
func (w *worker) process(batch []Record) bool {
	m, group, topic := w.c.conn.metrics, w.c.cfg.Group, w.tp.topic
	last := batch[len(batch)-1]
	m.redelivered.WithLabelValues(group, topic).Add(float64(w.seenBefore(batch)))
	attempts := 0
	handled := w.retry(w.hard, "handle", func(ctx context.Context) error {
		if attempts++; attempts > 1 {
			m.redelivered.WithLabelValues(group, topic).Add(float64(len(batch)))
		}
		start := w.c.conn.opts.Now()
		err := w.c.handle(ctx, w.claim, batch)
		m.batchSeconds.WithLabelValues(group, topic).Observe(w.c.conn.opts.Now().Sub(start).Seconds())
		return err
	})
	if !handled {
		return false
	}
	if done := (Committed{Offset: last.Offset + 1}); w.committed != done { // a sink may have committed it already
		ok := w.retry(w.hard, "commit", func(ctx context.Context) error { return w.commit(ctx, done.Offset, "") })
		if !ok {
			return false
		}
	}
	m.handled.WithLabelValues(group, topic).Add(float64(len(batch)))
	w.measure(last)
	return true
}

func (w *worker) measure(last Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled = last.Offset + 1
	w.setLag()
	w.c.conn.metrics.delay.WithLabelValues(w.c.cfg.Group, w.tp.topic, strconv.Itoa(int(w.tp.partition))).Set(w.c.conn.opts.Now().Sub(last.Timestamp).Seconds())
}

// setLag is called when records come as well as when they are done: a handler that never succeeds falls behind.
func (w *worker) setLag() {
	w.c.conn.metrics.lag.WithLabelValues(w.c.cfg.Group, w.tp.topic, strconv.Itoa(int(w.tp.partition))).Set(float64(max(0, w.highWater-w.settled)))
}

// seenBefore counts the records which this process gave to the handler before, and remembers these.
func (w *worker) seenBefore(batch []Record) int {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	n := 0
	for i := range batch {
		if batch[i].Offset < w.c.highest[w.tp] {
			n++
		}
	}
	w.c.highest[w.tp] = max(w.c.highest[w.tp], batch[len(batch)-1].Offset+1)
	return n
}

// retry calls fn until it succeeds. It gives up, returning false, when the worker is to stop or the error is Fatal.
func (w *worker) retry(ctx context.Context, stage string, fn func(context.Context) error) bool {
	wait := backoff{min: w.c.cfg.RetryMin, max: w.c.cfg.RetryMax}
	for {
		err := fn(ctx)
		if err == nil {
			return true
		}
		if errors.As(err, new(Fatal)) {
			w.c.notify(nil, err)
			return false
		}
		if w.soft.Err() != nil {
			return false
		}
		if stage != "commit" { // commits are counted where they are made
			w.c.conn.metrics.handlerErrors.WithLabelValues(w.c.cfg.Group, w.tp.topic).Inc()
		}
		w.c.conn.opts.Log.Warn("will retry", "stage", stage, "group", w.c.cfg.Group, "topic", w.tp.topic,
			"partition", w.tp.partition, "attempt", wait.attempt+1, "error", err)
		if !wait.wait(w.soft) {
			return false
		}
	}
}

// commit is the claim's Commit; handlers and hooks run on the worker's goroutine, so committed has one writer.
func (w *worker) commit(ctx context.Context, offset int64, metadata string) error {
	if err := w.c.commit(ctx, w.tp, offset, metadata); err != nil {
		return err
	}
	w.committed = Committed{Offset: offset, Metadata: metadata}
	return nil
}

// stop ends the worker after the batch in flight, or at once when the partition is lost.
func (w *worker) stop(lost bool) {
	w.stopSoft()
	if lost {
		w.abort()
	}
}

func (w *worker) resume() {
	w.paused = false
	w.c.cl.ResumeFetchPartitions(map[string][]int32{w.tp.topic: {w.tp.partition}})
}

func (w *worker) signal() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}
