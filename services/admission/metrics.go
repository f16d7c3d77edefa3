package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/pgstore"
)

// metrics are admission's own; those of Kafka (lag, redeliveries) are the bus's. A tenant is no label: tenants are not
// bounded.
type metrics struct {
	answers      *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	settles      *prometheus.CounterVec
	recalled     prometheus.Counter // one of lookUps
	lookUps      *prometheus.CounterVec
	heldMore     prometheus.Counter
	holdGone     prometheus.Counter
	missed       prometheus.Counter
	healed       prometheus.Counter
	expired      prometheus.Counter
	reaperErrors prometheus.Counter
	forgotten    prometheus.Counter
	recovery     recoveryMetrics
	badRecords   *prometheus.CounterVec
	events       *prometheus.CounterVec
	unusable     *prometheus.CounterVec
	dearest      prometheus.Counter
	leftOut      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_admission_" + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_" + name, Help: help}, labels)
	}
	m := &metrics{
		answers: vec("answers_total", "Answers by call and problem code; ok is none.", "call", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_admission_answer_seconds", Help: "Time to answer, by call.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}}, []string{"call"}),
		settles: vec("settles_total", "Settles recorded, by who applies the amount: direct, journal, late, external.", "mode"),
		lookUps: vec("settle_lookups_total", "Where settles found their reservation: memory, redis, receipt, row. Those that memory did not do for count again.",
			"where"),
		heldMore:     counter("settle_held_more_total", "Settles from memory whose hold another replica had grown, so that the row and the answer were corrected."),
		holdGone:     counter("settle_hold_gone_total", "Direct settles that found no hold: somebody else had applied them, or it was deleted by hand."),
		missed:       counter("script_missed_total", "Committed ends that Redis missed and that the journal or the reaper heals."),
		healed:       counter("journal_applied_total", "Journal entries that changed a counter."),
		expired:      counter("expired_total", "Holds ended because their owner did not."),
		reaperErrors: counter("reaper_errors_total", "Looks for expired leases that failed."),
		forgotten:    counter("holds_forgotten_total", "Open holds that were no longer remembered because -remember-holds others were granted since."),
		recovery:     newRecoveryMetrics(r),
		badRecords:   vec("bad_records_total", "Records of followed topics that were refused.", "topic"),
		events:       vec("events_total", "Usage events sent to the ingest: taken, or unacknowledged by Kafka.", "outcome"),
		unusable: vec("saving_unusable_total", "Quotes without the plan's cheaper model, by why it cannot stand in: killed, unpriced, too_small, dearer.",
			"why"),
		dearest: counter("held_at_dearest_total", "Reservations without a price that were priced at their provider's dearest rates (unknown_price: dearest)."),
		leftOut: counter("executions_left_out_total", "Totals and revocations of executions that nobody started and that Redis had no place for."),
	}
	m.recalled = m.lookUps.WithLabelValues("memory")
	r.MustRegister(m.answers, m.seconds, m.settles, m.lookUps, m.heldMore, m.holdGone, m.missed, m.healed, m.expired, m.reaperErrors, m.forgotten, m.badRecords, m.events, m.unusable, m.dearest, m.leftOut)
	return m
}

func (m *metrics) answered(call, code string, took time.Duration) {
	m.answers.WithLabelValues(call, code).Inc()
	m.seconds.WithLabelValues(call).Observe(took.Seconds())
}

// of is answered for one call, whose series are looked up once.
func (m *metrics) of(call string) (answered func(code string, took time.Duration)) {
	good, seconds := m.answers.WithLabelValues(call, codeGood), m.seconds.WithLabelValues(call)
	return func(code string, took time.Duration) {
		if code != codeGood {
			m.answered(call, code, took)
			return
		}
		good.Inc()
		seconds.Observe(took.Seconds())
	}
}

// codeGood is the code of an answer that is no problem.
const codeGood = "ok"

func (m *metrics) settled(mode string) { m.settles.WithLabelValues(mode).Inc() }

// found counts where a settle found its reservation.
func (m *metrics) found(subj *subject, row *pgstore.Row) {
	where := "receipt"
	switch {
	case subj.recalled:
		m.recalled.Inc()
		return
	case subj.direct:
		where = "redis"
	case row != nil:
		where = "row"
	}
	m.lookUps.WithLabelValues(where).Inc()
}
