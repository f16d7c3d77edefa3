package breaker

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/domain/breaker"
)

// metrics is what is watched besides the bus' own lag, delay and redeliveries.
type metrics struct {
	executions, revoked, widest             prometheus.Gauge
	trips                                   *prometheus.CounterVec
	duplicates, evicted, malformed, catalog prometheus.Counter

	widestSeen atomic.Int64
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		executions: gauge("weir_breaker_executions", "Executions held in memory, of -max-executions."),
		revoked:    gauge("weir_breaker_revoked_roots", "Root executions that executions.revoked.v1 names."),
		widest:     gauge("weir_breaker_widest_fan_out_calls", "Most calls made under one agent of one execution since the process started."),
		trips: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_breaker_trips_total",
			Help: "Executions ended by this process, by the limit that was passed."}, []string{"reason"}),
		duplicates: counter("weir_breaker_duplicates_total", "Journal entries passed over because their id came before."),
		evicted:    counter("weir_breaker_filter_evicted_early_total", "Ids forgotten for want of room: above 0 a duplicate entry could be counted."),
		malformed:  counter("weir_breaker_malformed_decisions_total", "Decisions that could not be read and were passed over."),
		catalog:    counter("weir_breaker_bad_catalog_records_total", "Records of catalog.tenants.v1 that could not be read; the last good contract stays."),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.executions, m.revoked, m.widest, m.trips, m.duplicates, m.evicted, m.malformed, m.catalog} {
		errs = append(errs, r.Register(c))
	}
	for _, reason := range []breaker.Reason{breaker.Cost, breaker.Calls, breaker.Depth, breaker.Admission} {
		m.trips.WithLabelValues(string(reason)) // present at 0, so that an alert can tell "none" from "not running"
	}
	return m, errors.Join(errs...)
}

// fanOut keeps the largest fan-out seen.
func (m *metrics) fanOut(calls int64) {
	for seen := m.widestSeen.Load(); calls > seen; seen = m.widestSeen.Load() {
		if m.widestSeen.CompareAndSwap(seen, calls) {
			m.widest.Set(float64(calls))
		}
	}
}
