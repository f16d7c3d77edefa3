package storebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/pkg/budgetstore"
)

const (
	callers = 50
	slot    = 250 * time.Millisecond
	slots   = 8
	// windowCalls is how often the sorted set is asked in a slot: each call takes tens of milliseconds.
	windowCalls = 3
	batchSize   = 128
	batchers    = 4
)

// rates are the figures of calls a second by the library. The programs take turns slot by slot; a ratio is the median of the
// slots' own.
func (b *bench) rates(ctx context.Context) ([]Figure, error) {
	trivial, err := b.client.ScriptLoad(ctx, trivialSource).Result()
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	old, err := b.fillWindow(ctx)
	if err != nil {
		return nil, err
	}
	t, err := b.tenant(ctx, "rate", full, 0)
	if err != nil {
		return nil, err
	}
	var ours, theirs, windows, batches, ratios, windowRatios []float64
	for n := range slots {
		mine, err := b.rate(ctx, t, n, "")
		if err != nil {
			return nil, err
		}
		other, err := b.rate(ctx, t, n, trivial)
		if err != nil {
			return nil, err
		}
		set, err := old.rate(ctx, b.client, b.now)
		if err != nil {
			return nil, err
		}
		many, err := b.batchRate(ctx, t, n)
		if err != nil {
			return nil, err
		}
		ours, theirs, windows, batches = append(ours, mine), append(theirs, other), append(windows, set), append(batches, many)
		ratios, windowRatios = append(ratios, mine/other), append(windowRatios, mine/set)
	}
	const target = 50_000
	return []Figure{
		WithRatio("vs_trivial_evalsha", Median(ours), Median(theirs), Median(ratios), 0.5),
		WithRatio("vs_window_50000", Median(ours), Median(windows), Median(windowRatios), 100),
		figure("batch_per_s", Median(batches), target, 1),
	}, nil
}

// rate is calls a second of concurrent callers in one slot, by the store and its connections. hash names another script,
// which is sent with the same keys and arguments.
func (b *bench) rate(ctx context.Context, t budgetstore.Tenant, n int, hash string) (float64, error) {
	rate, err := b.inParallel(ctx, callers, func(ctx context.Context, caller, i int) (int, error) {
		r := request(t, name(n, caller, i, hash), b.now())
		if hash != "" {
			call := b.store.ReserveCall(r)
			call.Hash = hash
			return 1, b.store.Send(ctx, call)
		}
		reply, err := b.store.Reserve(ctx, r)
		if err == nil && reply.Verdict != budgetstore.Admitted {
			err = fmt.Errorf("%w: verdict %d", errNotAdmitted, reply.Verdict)
		}
		return 1, err
	})
	return rate, errors.Join(err, b.forget(ctx, t))
}

// batchRate is reservations a second by ReserveBatch.
func (b *bench) batchRate(ctx context.Context, t budgetstore.Tenant, n int) (float64, error) {
	rate, err := b.inParallel(ctx, batchers, func(ctx context.Context, caller, i int) (int, error) {
		list := make([]budgetstore.Request, batchSize)
		for k := range list {
			list[k] = request(t, name(n, caller, i*batchSize+k, "batch"), b.now())
		}
		for _, result := range b.store.ReserveBatch(ctx, list) {
			if result.Err != nil {
				return 0, result.Err
			}
			if result.Reply.Verdict != budgetstore.Admitted {
				return 0, fmt.Errorf("%w: verdict %d", errNotAdmitted, result.Reply.Verdict)
			}
		}
		return batchSize, nil
	})
	return rate, errors.Join(err, b.forget(ctx, t))
}

func name(slot, caller, i int, more string) string {
	return strconv.Itoa(slot) + "-" + strconv.Itoa(caller) + "-" + strconv.Itoa(i) + more
}

// forget drops the holds of a slot, as if they had been settled.
func (b *bench) forget(ctx context.Context, t budgetstore.Tenant) error {
	call := b.store.ReserveCall(request(t, "any", b.now()))
	fields, err := b.client.HKeys(ctx, call.Keys[0]).Result()
	if err != nil {
		return fmt.Errorf("storebench: %w", err)
	}
	holds := slices.DeleteFunc(fields, func(f string) bool { return f[0] == '{' && !strings.HasPrefix(f, call.Holds[1][:2]) })
	for chunk := range slices.Chunk(holds, 1000) {
		if err := b.client.HDel(ctx, call.Keys[0], chunk...).Err(); err != nil {
			return fmt.Errorf("storebench: %w", err)
		}
	}
	return nil
}

// sortedSet is the reference's window, full.
type sortedSet struct {
	hash string
	keys []string
	now  int64 // µs
	n    int
}

// fillWindow makes the sorted set with the calls of a whole minute, evenly spread, and the leases of 50 open calls.
func (b *bench) fillWindow(ctx context.Context) (*sortedSet, error) {
	w := &sortedSet{keys: []string{fmt.Sprintf("{window-%d}:calls", b.run), fmt.Sprintf("{window-%d}:leases", b.run)}, now: b.now().UnixMicro()}
	var err error
	if w.hash, err = b.client.ScriptLoad(ctx, windowSource).Result(); err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	// 4,000,000 nano-dollars, 900 and 300 tokens as doubles.
	const numbers = "\x00\x00\x00\x00\x80\x84\x4e\x41\x00\x00\x00\x00\x00\x20\x8c\x40\x00\x00\x00\x00\x00\xc0\x72\x40"
	gap := time.Minute.Microseconds() / full
	for from := 0; from < full; from += 1000 {
		members := make([]redis.Z, 1000)
		for i := range members {
			at := w.now - int64(full-from-i)*gap
			members[i] = redis.Z{Score: float64(at), Member: numbers + strconv.Itoa(from+i)}
		}
		if err := b.client.ZAdd(ctx, w.keys[0], members...).Err(); err != nil {
			return nil, fmt.Errorf("storebench: %w", err)
		}
	}
	return w, nil
}

// rate is calls a second. Each call is one gap after the one before, so one member leaves and one comes.
func (w *sortedSet) rate(ctx context.Context, client *redis.Client, now func() time.Time) (float64, error) {
	began := now()
	for range windowCalls {
		w.now += time.Minute.Microseconds() / full
		w.n++
		admitted, err := client.EvalSha(ctx, w.hash, w.keys, w.now, fmt.Sprintf("next-%d", w.n), 4_000_000, 900, 300,
			1<<30, 1<<50, 1<<45, 1<<45, 1<<30, 60_000_000).Int()
		if err != nil {
			return 0, fmt.Errorf("sorted set: %w", err)
		}
		if admitted != 1 {
			return 0, fmt.Errorf("%w by the sorted set: %d", errNotAdmitted, admitted)
		}
	}
	return windowCalls / now().Sub(began).Seconds(), nil
}

// inParallel calls do from several goroutines until the slot is over, and returns what they did per second.
func (b *bench) inParallel(ctx context.Context, goroutines int, do func(ctx context.Context, goroutine, i int) (int, error)) (float64, error) {
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	began := b.now()
	for g := range goroutines {
		group.Go(func() error {
			for i := 0; b.now().Sub(began) < slot; i++ {
				n, err := do(ctx, g, i)
				if err != nil {
					return err
				}
				done.Add(int64(n))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return float64(done.Load()) / b.now().Sub(began).Seconds(), nil
}
