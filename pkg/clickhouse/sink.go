package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/journal"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

// SinkGroup is the consumer group of the ledger sink.
const SinkGroup = "weir.ledger-sink"

// ledgerTable is what the sink needs of a Client.
type ledgerTable interface {
	insertLedger(ctx context.Context, token string, rows []row) error
	presentOffsets(ctx context.Context, topic string, partition int32, from, to int64) (map[int64]bool, error)
}

// LedgerSink copies the journal into agent_cost_ledger. Its methods are the hooks and the handler of one bus.Consumer.
type LedgerSink struct {
	table   ledgerTable
	reader  journal.Reader
	metrics sinkMetrics
	mu      sync.Mutex
	filters map[int32]*journal.Filter // one per claimed partition, used by its worker alone
}

type sinkMetrics struct {
	rows, duplicates, inserts, replays, evicted prometheus.Counter
}

// NewLedgerSink makes a sink. reader reads the journal again after a crash; *bus.Conn is one.
func NewLedgerSink(c *Client, reader journal.Reader, metrics prometheus.Registerer) (*LedgerSink, error) {
	return newSink(c, reader, metrics)
}

func newSink(t ledgerTable, reader journal.Reader, metrics prometheus.Registerer) (*LedgerSink, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_ledger_sink_" + name, Help: help})
	}
	s := &LedgerSink{table: t, reader: reader, filters: map[int32]*journal.Filter{}, metrics: sinkMetrics{
		rows:       counter("rows_total", "Rows acknowledged by ClickHouse."),
		duplicates: counter("journal_duplicates_total", "Journal records dropped because their entry id came before."),
		inserts:    counter("inserts_total", "Inserts acknowledged by ClickHouse."),
		replays:    counter("replayed_ranges_total", "Pending ranges found on taking a partition over."),
		evicted:    counter("filter_evictions_total", "Ids forgotten while still young: the id filter is too small."),
	}}
	for _, m := range []prometheus.Collector{s.metrics.rows, s.metrics.duplicates, s.metrics.inserts, s.metrics.replays, s.metrics.evicted} {
		if err := metrics.Register(m); err != nil {
			return nil, fmt.Errorf("ledger sink: %w", err)
		}
	}
	return s, nil
}

// ConsumerConfig is the group consumer that the sink runs in: a flush at maxRows records (at most 100,000), or flushEvery
// after the first one. Flushing more than once a second makes more parts than ClickHouse merges.
func (s *LedgerSink) ConsumerConfig(maxRows int, flushEvery time.Duration) bus.ConsumerConfig {
	maxRows = max(1, min(maxRows, 100_000))
	return bus.ConsumerConfig{Group: SinkGroup, Topics: []bus.Topic{topics.LedgerEntries}, MaxBatch: maxRows, MaxPending: 2 * maxRows,
		MaxPendingBytes: 64 << 20, Linger: flushEvery, OnAssigned: s.assigned, OnRevoked: s.released, OnLost: s.released}
}

// assigned finishes what the last owner may have left half done, and says where to go on.
func (s *LedgerSink) assigned(ctx context.Context, claim bus.Claim, at bus.Committed) (int64, error) {
	pending, isPending, err := parseIntent(at.Metadata)
	if err != nil {
		return 0, bus.Fatal{Err: fmt.Errorf("ledger sink %s/%d: %w", claim.Topic().Name(), claim.Partition(), err)}
	}
	f := journal.NewFilter()
	if err := f.Warm(ctx, s.reader, claim.Topic(), claim.Partition(), at.Offset, entryID); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.filters[claim.Partition()] = f
	s.mu.Unlock()
	if !isPending {
		return bus.AtCommitted, nil
	}
	return s.replay(ctx, claim, f, pending)
}

func entryID(r bus.Record) (string, error) {
	e, err := ledgercodec.Unmarshal(r.Value)
	return e.ID, err
}

// replay inserts what is missing of a pending range: under the range's own token, so that an insert of the last owner
// which is still on its way is the same block.
func (s *LedgerSink) replay(ctx context.Context, claim bus.Claim, f *journal.Filter, pending intent) (int64, error) {
	s.metrics.replays.Inc()
	var batch []bus.Record
	err := s.reader.ReadPartition(ctx, claim.Topic(), claim.Partition(), pending.from, pending.to+1, func(r bus.Record) error {
		batch = append(batch, r)
		return nil
	})
	if err != nil {
		return 0, err
	}
	present, err := s.table.presentOffsets(ctx, claim.Topic().Name(), claim.Partition(), pending.from, pending.to)
	if err != nil {
		return 0, err
	}
	if err := s.write(ctx, claim, f, pending, batch, present); err != nil {
		return 0, err
	}
	return pending.to + 1, claim.Commit(ctx, pending.to+1, "")
}

// released lets a partition go.
func (s *LedgerSink) released(claim bus.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.filters, claim.Partition())
}

// Handle writes the intent and then the rows; the consumer commits behind them. When ClickHouse is away or refuses
// inserts, the error stops the partition: lag grows and nothing is lost.
func (s *LedgerSink) Handle(ctx context.Context, claim bus.Claim, batch []bus.Record) error {
	s.mu.Lock()
	f := s.filters[claim.Partition()]
	s.mu.Unlock()
	if f == nil {
		return fmt.Errorf("ledger sink: partition %d was not assigned", claim.Partition())
	}
	i := intent{from: batch[0].Offset, to: batch[len(batch)-1].Offset}
	if err := claim.Commit(ctx, i.from, i.String()); err != nil {
		return fmt.Errorf("ledger sink: write intent: %w", err)
	}
	return s.write(ctx, claim, f, i, batch, nil)
}

// write inserts a range month by month. A month of which a part is present (no path of ours leaves one) gets its rest
// under a token of its own.
func (s *LedgerSink) write(ctx context.Context, claim bus.Claim, f *journal.Filter, i intent, batch []bus.Record, present map[int64]bool) error {
	months := map[int][]row{}
	partial := map[int]bool{}
	for _, r := range batch {
		e, err := ledgercodec.Unmarshal(r.Value)
		if err != nil {
			return bus.Fatal{Err: fmt.Errorf("ledger sink: journal %d/%d: %w", r.Partition, r.Offset, err)}
		}
		before := f.EvictedEarly()
		duplicate := f.Seen(e.ID, r.Offset, r.Timestamp)
		s.metrics.evicted.Add(float64(f.EvictedEarly() - before))
		if duplicate {
			s.metrics.duplicates.Inc()
			continue
		}
		if e.IsMarker() { // no line of the books
			continue
		}
		w := row{entry: e, topic: r.Topic.Name(), partition: r.Partition, offset: r.Offset}
		if present[r.Offset] {
			partial[w.month()] = true
			continue
		}
		months[w.month()] = append(months[w.month()], w)
	}
	for _, month := range slices.Sorted(maps.Keys(months)) {
		token := i.token(claim.Topic().Name(), claim.Partition(), month)
		if partial[month] {
			token += fmt.Sprintf("|rest|%d|%d", months[month][0].offset, len(months[month]))
		}
		if err := s.table.insertLedger(ctx, token, months[month]); err != nil {
			return err
		}
		s.metrics.inserts.Inc()
		s.metrics.rows.Add(float64(len(months[month])))
	}
	return nil
}
