//go:build integration

package admission

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/testkit"
)

// Goal: without Kafka a replica stops before anybody kills it, with everything closed and without an error: what could
// not be told to Kafka was promised to nobody. It is given up once, not once for each who tells it, and counted.
func TestStopsWithoutKafka(t *testing.T) {
	kafka, cluster := testkit.KafkaCluster(t)
	k := contract()
	k.Limits.Concurrency = 1
	w := newWorldOn(t, kafka, one(k))
	r := w.start(func(c *Config) { c.Deadline = 3 * time.Second }) // an event waits for some of them
	status, out := r.reserve("acme", "r1", 1)
	w.want("reserve", status, out, 201)
	cluster.Close()
	for _, id := range []string{"r2", "r3"} { // refusals are published
		status, out = r.reserve("acme", id, 1)
		w.want("refused", status, out, 429)
	}
	status, out, _ = r.do("POST", "/v1/events", w.keys["acme"], anEvent)
	w.want("an event", status, out, 503)
	begin := time.Now()
	r.stop()
	took := time.Since(begin)
	if took > shutdownDeadline {
		t.Errorf("it took %s to stop", took)
	}
	if n := r.metric("weir_admission_decisions_dropped_total", "refusal"); n != 2 {
		t.Errorf("%v refusals are counted as dropped", n)
	}
	if r.svc.rows.Ping(t.Context()) == nil || r.svc.counters.Ping(t.Context()) == nil {
		t.Error("a store is still open")
	}
}
