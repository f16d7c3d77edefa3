package costattributor

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/domain/ledger"
)

// metrics is what is watched besides the bus' own lag, delay and redeliveries.
type metrics struct {
	events, deadLetters, entries *prometheus.CounterVec
	unpriced, catalog            prometheus.Counter
	ids                          *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_attributor_events_total",
			Help: "Usage events by what became of them: booked, duplicate, dead_letter, rerouted."}, []string{"result"}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_attributor_dead_letters_total",
			Help: "Events sent to usage.deadletter.v1, by reason."}, []string{"reason"}),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_attributor_entries_total",
			Help: "Journal entries, by kind."}, []string{"kind"}),
		unpriced: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_attributor_unpriced_total",
			Help: "Entries without a price: their cost is unknown, not zero."}),
		catalog: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_attributor_bad_catalog_records_total",
			Help: "Catalog records that could not be read; the last good value stays."}),
		ids: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_attributor_known_events",
			Help: "Events remembered, of -max-ids, by partition."}, []string{"partition"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.events, m.deadLetters, m.entries, m.unpriced, m.catalog, m.ids} {
		errs = append(errs, r.Register(c))
	}
	for _, result := range []string{string(ledger.Booked), string(ledger.Duplicate), "dead_letter", "rerouted"} {
		m.events.WithLabelValues(result) // present at 0, so that an alert can tell "none" from "not running"
	}
	return m, errors.Join(errs...)
}

func (m *metrics) entry(e ledger.Entry) {
	m.entries.WithLabelValues(string(e.Kind)).Inc()
	if !e.Priced() && e.Kind != ledger.Reversal {
		m.unpriced.Inc()
	}
}

func label(partition int32) string { return strconv.Itoa(int(partition)) }
