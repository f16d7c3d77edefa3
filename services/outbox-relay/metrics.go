package outboxrelay

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/lifecycle"
)

// metrics is what is watched. Backlog, age and parked rows come from the database and are the same on every copy.
type metrics struct {
	backlog, parkedRows, held   prometheus.Gauge
	published, parked, failures *prometheus.CounterVec
	emptied                     prometheus.Counter

	postgres *lifecycle.Dependency
	leads    atomic.Bool
	now      func() time.Time
	mu       sync.Mutex
	oldest   time.Duration // as last measured
	at       time.Time     // when that was; at first, when the process began
}

// blindAfter is after how long without a measurement nobody knows whether there are rows.
const blindAfter = 5 * measureEvery

// measured takes down the age of the oldest row.
func (m *metrics) measured(oldest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.oldest, m.at = oldest, m.now()
}

// oldestSeconds is the age that the oldest row may have: it gets older while nobody can look.
func (m *metrics) oldestSeconds() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := max(0, m.now().Sub(m.at))
	if m.oldest == 0 && since <= blindAfter {
		return 0
	}
	return (m.oldest + since).Seconds()
}

// leader is 1 while this copy leads, and 0 where it cannot know: its lock ends with its connection.
func (m *metrics) leader() float64 {
	if m.leads.Load() && m.postgres.Silent() <= lifecycle.AwayAfter {
		return 1
	}
	return 0
}

func newMetrics(r prometheus.Registerer, now func() time.Time, postgres *lifecycle.Dependency) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		postgres: postgres, now: now, at: now(),
		backlog:    gauge("weir_outbox_backlog_rows", "Committed rows that are not yet recorded as published, as last seen; counting stops at a million."),
		parkedRows: gauge("weir_outbox_parked_rows", "Rows in outbox_parked: events that Kafka could never take. Anything above 0 is money not yet billed."),
		held:       gauge("weir_outbox_slots_held", "Slots that could not be emptied at the last try, of 4."),
		published:  counter("weir_outbox_published_total", "topic", "Rows acknowledged by Kafka, repeats included."),
		parked:     counter("weir_outbox_parked_total", "reason", "Rows parked by this process."),
		failures:   counter("weir_outbox_errors_total", "dependency", "Failed calls, each of which is retried: kafka or postgres."),
		emptied:    prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_outbox_slots_emptied_total", Help: "Slots emptied after publication."}),
	}
	var errs []error
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_outbox_oldest_seconds",
		Help: "Age of the oldest of them by the database's clock, 0 without any. It grows on while the database cannot be asked."}, m.oldestSeconds)
	leader := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_outbox_leader",
		Help: "1 on the copy that publishes, else 0, also where it does not reach Postgres."}, m.leader)
	for _, c := range []prometheus.Collector{m.backlog, oldest, m.parkedRows, leader, m.held, m.published, m.parked, m.failures, m.emptied} {
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
