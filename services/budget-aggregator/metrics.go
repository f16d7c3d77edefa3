package budgetaggregator

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what is watched besides the bus' own lag, delay and redeliveries.
type metrics struct {
	windows                                                                       prometheus.Gauge
	published, duplicates, refolds, overwritten, evicted, bases, rows, unreadable prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		windows:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_aggregator_windows", Help: "Totals held in memory, of -max-windows."}),
		published:   counter("weir_aggregator_published_total", "Totals published and acknowledged."),
		duplicates:  counter("weir_aggregator_duplicates_total", "Journal entries passed over because their id came before."),
		refolds:     counter("weir_aggregator_refolds_total", "Partitions folded again from the start of the journal."),
		overwritten: counter("weir_aggregator_overwritten_total", "Totals written again because a dead owner had overwritten them."),
		evicted:     counter("weir_aggregator_filter_evicted_early_total", "Ids forgotten for want of room: above 0 a duplicate entry could be counted."),
		bases:       counter("weir_aggregator_bases_total", "Bases of an epoch published to their end record, one per partition and recovery."),
		rows:        counter("weir_window_sink_rows_total", "Rows written into the window table, repeats included."),
		unreadable:  counter("weir_window_sink_unreadable_total", "Records of budget.windows.v1 that are no totals."),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.windows, m.published, m.duplicates, m.refolds, m.overwritten, m.evicted, m.bases, m.rows, m.unreadable} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}
