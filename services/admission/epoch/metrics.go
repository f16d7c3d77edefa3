package epoch

import "github.com/prometheus/client_golang/prometheus"

// metrics say whether this replica serves, and which losses it saw.
type metrics struct {
	serving      prometheus.Gauge
	started      prometheus.Counter
	contradicted *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		serving: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_recovery_state",
			Help: "Whether this replica serves: 0 yes, 1 the budget store is being recovered, 2 no, or Redis takes none of its reservations, for another reason that /readyz names, 3 no, for ever: it is of an earlier build than the counters."}),
		started: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_started_total", Help: "Losses of the budget store that this replica was the first to see."}),
		contradicted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_recovery_contradicted_total",
			Help: "Losses that this replica saw and that were none, by who knew better: the other replicas, or a new connection."}, []string{"by"}),
	}
	r.MustRegister(m.serving, m.started, m.contradicted)
	return m
}
