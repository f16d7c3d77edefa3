// Package httpbench measures one process of admission over HTTP next to what bounds it from above, in one run: a bare
// handler that does one trivial EVALSHA with as many arguments, and one that commits a row.
//
// It owns the references, the load and the parts that both need; it decides nothing. Ours and reference take turns in
// short slots, so that whatever else the machine does falls on both; a ratio is the median of the slots' own, and so is a
// p99. The load comes from this process and shares the machine with what is measured: it sends ready bytes over
// connections of its own, and costs the same for both sides.
//
// Every dimension is on: a tenant with every limit and ceiling and the ladder, and an execution token with limits for
// each client. Redis does not sync its log, since the trivial script would write nothing; Postgres syncs every commit.
package httpbench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/pkg/storebench"
)

const (
	clients = 50
	slot    = time.Second
	rounds  = 7
	// settles is how many reservations a slot of settles ends: somewhat more than a second of them.
	settles = 10_000
)

// What a comparable server that reserves and commits does on such a machine; ten times that is the bar.
const (
	peerReserves = 965
	peerPairs    = 452
	peerFactor   = 10
)

// Config says what is measured, and where.
type Config struct {
	// Admission is the path of the service's binary.
	Admission string
	// Floor starts the reference as a process of its own; its arguments are those of RunFloor.
	Floor []string
	// Dir is an empty folder.
	Dir string
	// Redis is the client URL of one that holds nothing of value; "" starts one.
	Redis string
	// Log takes a line about each slot; nil = none.
	Log io.Writer
	// Now is the caller's clock.
	Now func() time.Time
}

// Figures measures, which takes about a minute.
func Figures(ctx context.Context, cfg Config) (figures []storebench.Figure, err error) {
	w, err := newWorld(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("httpbench: %w", err)
	}
	defer w.close()
	reserves, err := w.reserveFigures(ctx)
	if err != nil {
		return nil, fmt.Errorf("httpbench: reserve: %w", err)
	}
	ends, err := w.settleFigures(ctx)
	if err != nil {
		return reserves, fmt.Errorf("httpbench: settle: %w", err)
	}
	return append(reserves, ends...), nil
}

// reserveFigures are reservations next to the floor.
func (w *world) reserveFigures(ctx context.Context) ([]storebench.Figure, error) {
	var ours, floor, ratios, p99s, floor99s, ratio99s []float64
	for n := range rounds + 1 {
		w.slots++
		mine, err := w.load(ctx, "reserve", w.admission, slot, w.reserve)
		if err != nil {
			return nil, err
		}
		other, err := w.load(ctx, "floor", w.floor, slot, w.trivial)
		if err != nil {
			return nil, err
		}
		if n == 0 { // both are warm only now
			continue
		}
		ours, floor, ratios = append(ours, mine.rate), append(floor, other.rate), append(ratios, mine.rate/other.rate)
		p99s, floor99s, ratio99s = append(p99s, mine.p99), append(floor99s, other.p99), append(ratio99s, mine.p99/other.p99)
	}
	return []storebench.Figure{
		storebench.WithRatio("reserve_vs_floor", storebench.Median(ours), storebench.Median(floor), storebench.Median(ratios), 0.5),
		storebench.WithRatio("reserve_p99_vs_floor", storebench.Median(p99s), storebench.Median(floor99s), storebench.Median(ratio99s), 2),
		storebench.WithRatio("reserve_per_s", storebench.Median(ours), peerReserves, storebench.Median(ours)/peerReserves, peerFactor),
	}, nil
}

// settleFigures are settles next to commits, over HTTP as the settles are, and by writers that need no HTTP. What is
// settled is reserved first, outside of the slot.
func (w *world) settleFigures(ctx context.Context) ([]storebench.Figure, error) {
	var ours, floor, ratios, writers, alone, pairs []float64
	for n := range rounds + 1 {
		w.slots++
		made, err := w.load(ctx, "reserve", w.admission, 0, w.reserveSome)
		if err != nil {
			return nil, err
		}
		mine, err := w.load(ctx, "settle", w.admission, 0, w.settle)
		if err != nil {
			return nil, err
		}
		other, err := w.load(ctx, "commit", w.floor, 0, w.commit)
		if err != nil {
			return nil, err
		}
		bare, err := w.writers(ctx)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		ours, floor, ratios = append(ours, mine.rate), append(floor, other.rate), append(ratios, mine.rate/other.rate)
		writers, alone = append(writers, bare), append(alone, mine.rate/bare)
		pairs = append(pairs, 1/(1/made.rate+1/mine.rate))
	}
	return []storebench.Figure{
		storebench.WithRatio("settle_vs_commit", storebench.Median(ours), storebench.Median(floor), storebench.Median(ratios), 0.8),
		storebench.WithRatio("settle_vs_writers", storebench.Median(ours), storebench.Median(writers), storebench.Median(alone), 0.8),
		storebench.WithRatio("reserve_settle_per_s", storebench.Median(pairs), peerPairs, storebench.Median(pairs)/peerPairs, peerFactor),
	}, nil
}
