// Package storebench measures the reserve script next to a trivial script with the same keys and arguments, and next to
// the textbook sliding window (a sorted set with one member per call), in one run.
//
// It owns the reference scripts and the way of measuring: short rounds of all programs in turn, so that whatever else the
// machine does falls on each; of Redis' own time the fastest quarter of the rounds, of rates the median. It decides nothing
// and writes only keys of tenants that it makes. It wants a Redis of its own: it changes its settings.
package storebench

import (
	"context"
	_ "embed" // of the reference script
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// Figure is one line of `make bench-admission`. Ratio is Ours / Reference.
// Target is the least ratio of a throughput, the greatest of flat_10_to_50000,
// and for redis_time_us, redis_time_together_us and settle_time_us the greatest Ours, in µs.
type Figure struct {
	Name      string  `json:"name"`
	Ours      float64 `json:"ours"`
	Reference float64 `json:"reference"`
	Ratio     float64 `json:"ratio"`
	Target    float64 `json:"target"`
}

func figure(name string, ours, reference, target float64) Figure {
	return WithRatio(name, ours, reference, ours/reference, target)
}

// WithRatio is a figure whose ratio was taken pair by pair. Three decimals are more than the machine repeats.
func WithRatio(name string, ours, reference, ratio, target float64) Figure {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	return Figure{Name: name, Ours: round(ours), Reference: round(reference), Ratio: round(ratio), Target: target}
}

//go:embed window.lua
var windowSource string

const (
	trivialSource = "return 1"
	epoch         = 4_000_000_000_000_007
	// full is how many calls the window of a busy tenant holds.
	full = 50_000
)

// bench is one Redis with its store.
type bench struct {
	client *redis.Client
	store  *budgetstore.Store
	// clock is the scripts' where a figure needs a window of a given fill; zero: Redis' own.
	clock time.Time
	calls int
	run   int64 // makes names new in each run
	now   func() time.Time
}

// Figures measures everything against the Redis at url, which takes some
// seconds; now is the clock of the caller.
func Figures(ctx context.Context, url string, now func() time.Time) ([]Figure, error) {
	live, err := open(ctx, url, now, false)
	if err != nil {
		return nil, err
	}
	defer live.close()
	logical, err := open(ctx, url, now, true)
	if err != nil {
		return nil, err
	}
	defer logical.close()
	// What the disk costs is another matter: a write that waits for it would hide what the scripts cost.
	if err := live.client.ConfigSet(ctx, "appendonly", "no").Err(); err != nil {
		return nil, fmt.Errorf("storebench: %w", err)
	}
	times, err := redisTimes(ctx, live, logical)
	if err != nil {
		return nil, err
	}
	rates, err := live.rates(ctx)
	return append(times, rates...), err
}

func open(ctx context.Context, url string, now func() time.Time, logical bool) (*bench, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis address: %w", err)
	}
	b := &bench{client: redis.NewClient(o), run: now().UnixNano(), now: now}
	options := budgetstore.Options{}
	if logical {
		b.clock = time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)
		options.ScriptClock = func() time.Time { return b.clock }
	}
	if b.store, err = budgetstore.Open(ctx, url, options); err != nil {
		return nil, errors.Join(err, b.client.Close())
	}
	return b, nil
}

func (b *bench) close() { _, _ = b.client.Close(), b.store.Close() }

// tenant makes a new one, whose window holds as many calls as asked, gap apart
// on a logical clock, whose last ids have ended, and which has one open hold.
func (b *bench) tenant(ctx context.Context, name string, calls int, gap time.Duration) (budgetstore.Tenant, error) {
	t := budgetstore.Tenant{ID: fmt.Sprintf("bench-%s-%d", name, b.run), Epoch: epoch}
	if _, err := b.store.CreateTenant(ctx, t); err != nil {
		return t, err
	}
	if err := b.store.MarkReady(ctx, t); err != nil {
		return t, err
	}
	const settled = 64 // as many as are remembered
	for range settled {
		r := b.request(t, gap)
		reply, err := b.store.Reserve(ctx, r)
		if err != nil {
			return t, err
		}
		ref := budgetstore.Ref{Tenant: t, ID: r.ID, ReservedAt: reply.Answer.ReservedAt}
		if _, err := b.store.Settle(ctx, ref, r.Estimate); err != nil {
			return t, err
		}
	}
	if _, err := b.store.Reserve(ctx, b.request(t, gap)); err != nil {
		return t, err
	}
	for left := calls; left > 0; left -= batch {
		p := &program{bench: b, tenant: t, gap: gap}
		if _, err := p.round(ctx); err != nil {
			return t, err
		}
	}
	return t, nil
}

// request has every dimension on: all limits, an execution with its own, the
// ladder, and a context of the usual size, which admission's stays below.
func (b *bench) request(t budgetstore.Tenant, gap time.Duration) budgetstore.Request {
	b.calls++
	now := b.now()
	if !b.clock.IsZero() {
		b.clock = b.clock.Add(gap)
		now = b.clock
	}
	return request(t, "call-"+strconv.Itoa(1_000_000_000+b.calls), now)
}

func request(t budgetstore.Tenant, id string, now time.Time) budgetstore.Request {
	high := admit.Hard(1 << 50)
	return budgetstore.Request{
		Tenant: t, ID: id, Fingerprint: admit.Content{Model: id}.Fingerprint(),
		Estimate: admit.Estimate{Nanos: 4_000_000, InputTokens: 900, OutputTokens: 300},
		Execution: admit.Execution{Root: "root-of-the-bench", Depth: 1,
			ExecutionLimits: admit.ExecutionLimits{MaxCost: 1 << 50, MaxDepth: 9, MaxCalls: 1 << 40}},
		Limits: admit.Limits{Requests: 1 << 30, InputTokens: 1 << 45, OutputTokens: 1 << 45, Concurrency: 1 << 30,
			Minute: high, Day: admit.Ceiling{Limit: 1 << 50, Cap: money.MaxNano}, Month: high, Ladder: ladder.Default()},
		Calendar: admit.CalendarAt(now, time.UTC), Lease: time.Minute, Context: make([]byte, 160),
	}
}

// Median is the middle one of a list, of two the upper; the list is not empty.
func Median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
