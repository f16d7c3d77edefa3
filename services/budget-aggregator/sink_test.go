package budgetaggregator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// table is a window table that may refuse.
type table struct {
	mu      sync.Mutex
	refuse  int
	inserts int
	latest  map[string]*weirv1.WindowTotal
	changed chan struct{}
}

func newTable() *table {
	return &table{latest: map[string]*weirv1.WindowTotal{}, changed: make(chan struct{}, 1)}
}

func (w *table) Ping(context.Context) error { return nil }

func (w *table) InsertWindows(_ context.Context, totals []*weirv1.WindowTotal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inserts++
	if w.refuse > 0 {
		w.refuse--
		return errors.New("too many parts")
	}
	for _, m := range totals {
		k := key{m.GetTenantId(), m.GetScopeKind(), m.GetScopeId(), m.GetKind(), m.GetWindow()}.text()
		if old := w.latest[k]; old == nil || old.GetVersion() <= m.GetVersion() {
			w.latest[k] = m
		}
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

func (w *table) totals(t testing.TB) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for k, m := range w.latest {
		out[k] = summed(t, m)
	}
	return out
}

func TestSink(t *testing.T) {
	metrics, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w := newTable()
	s := &sink{log: slog.New(slog.DiscardHandler), metrics: metrics, table: w}
	total := func(version, own int64) bus.Record {
		k := keysOf(entry(t, "1", "acme", "", start, "0.1"))[2]
		value, err := encode(k, window.Total{Version: version, Entries: own, Latest: start}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return bus.NewRecord(topics.BudgetWindows, "acme", []byte(k.text()), value)
	}
	based := total(12, 12) // of a past moment: the table keeps what is now
	k, past, _, err := decode(based.Value)
	if err != nil {
		t.Fatal(err)
	}
	w1 := message(k, past, 1)
	w1.BaseEpoch = 4
	if based.Value, err = marshal(w1); err != nil {
		t.Fatal(err)
	}
	batch := []bus.Record{total(3, 3), total(9, 9), total(5, 5), based, {Topic: topics.BudgetWindows, Key: []byte("gone")}, {Topic: topics.BudgetWindows, Value: []byte{0xff}}}
	w.refuse = 1
	if err := s.handle(t.Context(), bus.Claim{}, batch); err == nil {
		t.Fatal("a refused insert was committed")
	}
	if err := s.handle(t.Context(), bus.Claim{}, batch); err != nil {
		t.Fatal(err)
	}
	got := w.latest["acme\x00day\x0020261130"]
	if len(w.latest) != 1 || got.GetVersion() != 9 || w.inserts != 2 || testutil.ToFloat64(metrics.rows) != 1 || testutil.ToFloat64(metrics.unreadable) != 2 {
		t.Errorf("%v, %d inserts, %v rows", w.latest, w.inserts, testutil.ToFloat64(metrics.rows))
	}
	if err := s.handle(t.Context(), bus.Claim{}, batch[3:5]); err != nil || w.inserts != 2 {
		t.Errorf("nothing to write: %v, %d inserts", err, w.inserts)
	}
}
