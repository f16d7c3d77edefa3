package outboxrelay

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what is watched. Backlog, age and parked rows come from the database and are the same on every copy.
type metrics struct {
	backlog, oldest, parkedRows, leader, held prometheus.Gauge
	published, parked, failures               *prometheus.CounterVec
	emptied                                   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		backlog:    gauge("weir_outbox_backlog_rows", "Committed rows that are not yet recorded as published; counting stops at a million."),
		oldest:     gauge("weir_outbox_oldest_seconds", "Age of the oldest of them by the database's clock, 0 without any."),
		parkedRows: gauge("weir_outbox_parked_rows", "Rows in outbox_parked: events that Kafka could never take. Anything above 0 is money not yet billed."),
		leader:     gauge("weir_outbox_leader", "1 on the copy that publishes, else 0."),
		held:       gauge("weir_outbox_slots_held", "Slots that could not be emptied at the last try, of 4."),
		published:  counter("weir_outbox_published_total", "topic", "Rows acknowledged by Kafka, repeats included."),
		parked:     counter("weir_outbox_parked_total", "reason", "Rows parked by this process."),
		failures:   counter("weir_outbox_errors_total", "dependency", "Failed calls, each of which is retried: kafka or postgres."),
		emptied:    prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_outbox_slots_emptied_total", Help: "Slots emptied after publication."}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.backlog, m.oldest, m.parkedRows, m.leader, m.held, m.published, m.parked, m.failures, m.emptied} {
		errs = append(errs, r.Register(c))
	}
	for _, dependency := range []string{onKafka, onPostgres} {
		m.failures.WithLabelValues(dependency) // present at 0, so that an alert can tell "none" from "not running"
	}
	return m, errors.Join(errs...)
}

// The values of the label dependency.
const (
	onKafka    = "kafka"
	onPostgres = "postgres"
)
