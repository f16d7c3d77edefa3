package budgetaggregator

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// windowTable is where the sink writes; *clickhouse.Client is one.
type windowTable interface {
	// InsertWindows writes totals; one of a lower version than its key has may be written and changes nothing.
	InsertWindows(ctx context.Context, totals []*weirv1.WindowTotal) error
	// Ping returns nil when the table's server answers.
	Ping(ctx context.Context) error
}

// sink writes budget.windows.v1 into the window table.
type sink struct {
	log     *slog.Logger
	metrics *metrics
	table   windowTable
}

// handle writes the newest total of each key of a batch. While ClickHouse is away the error stops the partition, which
// then repeats the batch: rows that are there already are replaced by equal ones.
func (s *sink) handle(ctx context.Context, _ bus.Claim, batch []bus.Record) error {
	// Decode.
	newest := map[string]*weirv1.WindowTotal{}
	for _, r := range batch {
		if r.Value == nil {
			continue
		}
		k, _, m, err := decode(r.Value)
		if err != nil {
			// The aggregator's next restore writes this key again, so nothing is lost by going on.
			s.metrics.unreadable.Inc()
			s.log.Error("record is no total", "partition", r.Partition, "offset", r.Offset, "error", err)
			continue
		}
		// Decide.
		if m.GetBaseEpoch() != 0 { // of a past moment
			continue
		}
		if old := newest[k.text()]; old == nil || old.GetVersion() <= m.GetVersion() {
			newest[k.text()] = m
		}
	}
	// Save.
	rows := make([]*weirv1.WindowTotal, 0, len(newest))
	for _, k := range slices.Sorted(maps.Keys(newest)) {
		rows = append(rows, newest[k])
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.table.InsertWindows(ctx, rows); err != nil {
		return fmt.Errorf("window sink: %w", err)
	}
	s.metrics.rows.Add(float64(len(rows)))
	return nil
}
