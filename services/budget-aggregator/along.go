package budgetaggregator

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// readAlong repairs a partition's output until ctx ends: it looks every a.every.
func (a *aggregator) readAlong(ctx context.Context, b *book) {
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.repair(ctx, b); err != nil && ctx.Err() == nil {
			a.log.Warn("reading the own output along", "partition", b.partition, "error", err)
		}
	}
}

// written is the newest record of a key in the output.
type written struct{ version, generation int64 }

// repair reads what is new in the own output and publishes again each total whose newest record is a dead owner's: older
// than ours. Only readAlong's goroutine calls it.
func (a *aggregator) repair(ctx context.Context, b *book) error {
	newest, bases := map[key]written{}, newBasesRead()
	err := a.reader.ReadPartition(ctx, topics.BudgetWindows, b.partition, b.readTo, -1, func(rec bus.Record) error {
		switch k, t, m, err := decode(rec.Value); {
		case rec.Value == nil:
			bases.take(string(rec.Key), nil)
		case err != nil: // what is no total makes the next restore fold again
		case m.GetBaseEpoch() != 0:
			bases.take(string(rec.Key), m)
		default:
			newest[k] = written{t.Version, m.GetGeneration()}
		}
		b.readTo = rec.Offset + 1
		return nil
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.bases, bases.keys)
	b.sweepDue, b.endDue = b.sweepDue || len(bases.keys) > 0, b.endDue || bases.behind[b.ended]
	if err := a.tidy(ctx, b); err != nil { // a dead owner's late base
		return fmt.Errorf("repair: %w", err)
	}
	overwritten := 0
	for k, w := range newest {
		if w.generation < b.generation && w.version < b.totals[k].Version {
			b.dirty[k] = struct{}{}
			overwritten++
		}
	}
	if overwritten == 0 {
		return nil
	}
	a.metrics.overwritten.Add(float64(overwritten))
	a.log.Warn("a dead owner overwrote totals: writing them again", "partition", b.partition, "totals", overwritten)
	if _, err := b.publish(ctx, a.produce); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}
