package admission

import "github.com/prometheus/client_golang/prometheus"

// recoveryMetrics say how recoveries of the budget store go; whether one is needed is said by the watcher of the epoch.
type recoveryMetrics struct {
	step    prometheus.Gauge
	seconds prometheus.Histogram
	loads   prometheus.Counter
	pending prometheus.Counter
	// Of holds that this replica remembers: shown to a recovery, or not taken by it.
	shown, unshown prometheus.Counter
}

func newRecoveryMetrics(r prometheus.Registerer) recoveryMetrics {
	m := recoveryMetrics{
		step: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_recovery_step",
			Help: "Step of the recovery that this replica leads: 0 none, 1 wait, 2 barrier, 3 load, 4 apply, 5 limits, 6 verify, 7 finish."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_recovery_duration_seconds", Help: "Time from taking the lead to the end of a recovery.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 130, 150, 180, 300, 600, 1800}}),
		loads:   prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_tenants_loaded_total", Help: "Tenants whose counters were made anew."}),
		pending: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_kept_total", Help: "Extensions by receipt that were taken during a recovery."}),
		shown: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_shown_total",
			Help: "Open holds that this replica remembered and showed to a recovery."}),
		unshown: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_recovery_holds_not_shown_total",
			Help: "The same, which the recovery did not take: too late, too many of the tenant, or the tenant is gone."}),
	}
	r.MustRegister(m.step, m.seconds, m.loads, m.pending, m.shown, m.unshown)
	return m
}
