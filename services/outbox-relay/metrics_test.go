package outboxrelay

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/lifecycle"
)

// Goal: while Postgres cannot be asked, the age at which somebody is called is reached all the same, with rows and without, and no
// copy is shown as the leader. Method: a clock that the test moves.
func TestMetricsWhileBlind(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	postgres := lifecycle.NewDependency("postgres", slog.New(slog.DiscardHandler), clock)
	m, err := newMetrics(prometheus.NewRegistry(), clock, postgres)
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []struct {
		name         string
		oldest       time.Duration
		seen, missed float64 // the age at once and a minute later
	}{{"none waits", 0, 0, 60}, {"one waits", 3 * time.Second, 3, 63}} {
		m.leads.Store(true)
		m.measured(rows.oldest)
		postgres.Note(nil)
		if m.oldestSeconds() != rows.seen || m.leader() != 1 {
			t.Errorf("%s: %v s, leader %v", rows.name, m.oldestSeconds(), m.leader())
		}
		now = now.Add(measureEvery)
		if rows.oldest == 0 && m.oldestSeconds() != 0 {
			t.Errorf("%s: %v s between two looks", rows.name, m.oldestSeconds())
		}
		now = now.Add(time.Minute - measureEvery)
		postgres.Note(errors.New("away"))
		if m.oldestSeconds() != rows.missed || m.leader() != 0 {
			t.Errorf("%s, a minute later: %v s, leader %v", rows.name, m.oldestSeconds(), m.leader())
		}
	}
}
