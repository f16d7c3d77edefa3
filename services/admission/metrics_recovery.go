package admission

import "github.com/prometheus/client_golang/prometheus"

// recoveryMetrics say how recoveries of the budget store go.
type recoveryMetrics struct {
	step    prometheus.Gauge
	serving prometheus.Gauge
	started prometheus.Counter
	seconds prometheus.Histogram
	loads   prometheus.Counter
	pending prometheus.Counter
	// Of holds that this replica remembers: shown to a recovery, or not taken by it.
	shown, unshown prometheus.Counter
	contradicted   *prometheus.CounterVec
}

func newRecoveryMetrics(r prometheus.Registerer) recoveryMetrics {
	m := recoveryMetrics{
		step: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_recovery_step",
			Help: "Step of the recovery that this replica leads: 0 none, 1 wait, 2 barrier, 3 load, 4 apply, 5 limits, 6 verify, 7 finish."}),
		serving: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_recovery_state",
			Help: "Whether this replica serves: 0 yes, 1 the budget store is being recovered, 2 no, for another reason that /readyz names, 3 no, for ever: it is of an earlier build than the counters."}),
		started: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_started_total", Help: "Losses of the budget store that this replica was the first to see."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_recovery_duration_seconds", Help: "Time from taking the lead to the end of a recovery.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 130, 150, 180, 300, 600, 1800}}),
		loads:   prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_tenants_loaded_total", Help: "Tenants whose counters were made anew."}),
		pending: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_kept_total", Help: "Extensions by receipt that were taken during a recovery."}),
		shown: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_shown_total",
			Help: "Open holds that this replica remembered and showed to a recovery."}),
		unshown: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_not_shown_total",
			Help: "The same, which the recovery did not take: too late, too many of the tenant, or the tenant is gone."}),
		contradicted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_recovery_contradicted_total",
			Help: "Losses that this replica saw and that were none, by who knew better: the other replicas, or a new connection."}, []string{"by"}),
	}
	r.MustRegister(m.step, m.serving, m.started, m.seconds, m.loads, m.pending, m.shown, m.unshown, m.contradicted)
	return m
}
