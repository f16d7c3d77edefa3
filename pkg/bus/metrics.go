package bus

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled by topic, group and partition only, all of which are bounded; never by tenant.
type metrics struct {
	produced, produceErrors                                        *prometheus.CounterVec
	handled, redelivered, handlerErrors, commitErrors, fetchErrors *prometheus.CounterVec
	batchSeconds                                                   *prometheus.HistogramVec
	lag, delay                                                     *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"group", "topic", "partition"})
	}
	m := &metrics{
		produced:      counter("weir_bus_produced_records_total", "Records acknowledged by Kafka.", "topic"),
		produceErrors: counter("weir_bus_produce_errors_total", "Records that were refused, failed or not acknowledged in time.", "topic"),
		handled:       counter("weir_bus_handled_records_total", "Records whose batch was handled and committed.", "group", "topic"),
		redelivered:   counter("weir_bus_redelivered_records_total", "Records given to the handler again by this process.", "group", "topic"),
		handlerErrors: counter("weir_bus_handler_errors_total", "Batches and restores that ended in an error and are retried.", "group", "topic"),
		commitErrors:  counter("weir_bus_commit_errors_total", "Offset commits that failed and are retried.", "group", "topic"),
		fetchErrors:   counter("weir_bus_fetch_errors_total", "Errors reported while fetching.", "topic"),
		batchSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_bus_batch_seconds",
			Help: "Time the handler took for one batch.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"group", "topic"}),
		lag:   gauge("weir_bus_lag_records", "High watermark of the last fetch minus committed offset; absent where the process owns no partition, as when Kafka is away."),
		delay: gauge("weir_bus_delay_seconds", "Age of the last committed record when it was committed."),
	}
	for _, c := range []prometheus.Collector{m.produced, m.produceErrors, m.handled, m.redelivered, m.handlerErrors,
		m.commitErrors, m.fetchErrors, m.batchSeconds, m.lag, m.delay} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// forget drops the gauges of a partition that another process now owns.
func (m *metrics) forget(group, topic string, partition int32) {
	p := strconv.Itoa(int(partition))
	m.lag.DeleteLabelValues(group, topic, p)
	m.delay.DeleteLabelValues(group, topic, p)
}
