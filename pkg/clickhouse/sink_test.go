package clickhouse

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/ledgercodec"
)

var errDown = errors.New("down")

// usd reads an amount of this file.
func usd(t testing.TB, s string) *money.USD {
	t.Helper()
	a, err := money.ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// entry makes the n-th entry; odd ones happened a month earlier.
func entry(t testing.TB, n int) ledger.Entry {
	at := time.Date(2026, time.Month(4-n%2), 30, 23, 59, 59, 999_000_000+n, time.UTC)
	rate, err := money.ParseDecimal("0.0000025")
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Entry{
		ID: fmt.Sprintf("e_%04d", n), Kind: ledger.Usage, TenantID: "acme", EventTime: at, RecordedAt: at.Add(time.Second), Source: "app", EventID: fmt.Sprintf("ev%d", n),
		ContentHash: sha256.Sum256([]byte{byte(n)}), Provider: "openai", Model: "gpt-4o", Status: ledger.Success, InputTokens: 1000, OutputTokens: 10,
		Lines: []ledger.Line{{Meter: "input_tokens", Quantity: money.NewDecimal(1000), Rate: &rate, Raw: usd(t, "0.0025"), Billed: usd(t, "0.003")}},
		Raw:   usd(t, "0.0025"), Billed: usd(t, "0.003"), PriceVersion: "pv", Lineage: ledger.Lineage{RootExecutionID: fmt.Sprintf("root%d", n%3), AgentID: "a", CostCenter: "ops"},
		PostedPeriod: int32(202604 - n%2), External: 2_500_000,
	}
}

func record(t testing.TB, offset int64, n int) bus.Record {
	t.Helper()
	r, err := ledgercodec.Record(entry(t, n))
	if err != nil {
		t.Fatal(err)
	}
	r.Offset, r.Partition = offset, 0
	return r
}

// log is a journal partition and a group's position.
type log struct {
	records   []bus.Record
	committed bus.Committed
}

func (l *log) ReadPartition(_ context.Context, _ bus.Topic, _ int32, from, to int64, fn func(bus.Record) error) error {
	for _, r := range l.records {
		if r.Offset >= from && (to < 0 || r.Offset < to) {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// table is a ledger with a deduplication window that may forget.
type table struct {
	rows   []row
	tokens map[string]bool
	// failBefore and failAfter make the n-th insert fail, without or with its effect.
	inserts, failBefore, failAfter int
}

func (f *table) insertLedger(_ context.Context, token string, rows []row) error {
	f.inserts++
	if f.inserts == f.failBefore {
		return errDown
	}
	if !f.tokens[token] {
		f.tokens[token] = true
		f.rows = append(f.rows, rows...)
	}
	if f.inserts == f.failAfter {
		return errDown
	}
	return nil
}

func (f *table) presentOffsets(_ context.Context, _ string, _ int32, from, to int64) (map[int64]bool, error) {
	present := map[int64]bool{}
	for _, r := range f.rows {
		if r.offset >= from && r.offset <= to {
			present[r.offset] = true
		}
	}
	return present, nil
}

func (f *table) offsets() []int64 {
	var out []int64
	for _, r := range f.rows {
		out = append(out, r.offset)
	}
	return slices.Sorted(slices.Values(out))
}

func testRegistry() prometheus.Registerer { return prometheus.NewRegistry() }

func testClaim(l *log) bus.Claim {
	return bus.NewClaim(topics.LedgerEntries, 0, 1, func(_ context.Context, offset int64, metadata string) error {
		l.committed = bus.Committed{Offset: offset, Metadata: metadata}
		return nil
	})
}

// process runs the sink as the consumer would, from assignment to the commit of one batch of n records.
func process(t *testing.T, l *log, f *table, n int) error {
	t.Helper()
	s, err := newSink(f, l, testRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	claim := testClaim(l)
	at, err := s.assigned(ctx, claim, l.committed)
	if err != nil {
		return err
	}
	if at == bus.AtCommitted {
		at = max(0, l.committed.Offset)
	}
	var batch []bus.Record
	for _, r := range l.records {
		if r.Offset >= at && len(batch) < n {
			batch = append(batch, r)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	if err := s.Handle(ctx, claim, batch); err != nil {
		return err
	}
	l.committed = bus.Committed{Offset: batch[len(batch)-1].Offset + 1}
	return nil
}

// Every crash leaves each offset in the ledger exactly once, in whatever sizes the batches come afterwards, and also
// when the deduplication window has forgotten.
func TestCrashes(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		for fail := 1; fail <= 6; fail++ {
			for _, after := range []bool{false, true} {
				l := &log{committed: bus.Committed{Offset: -1}}
				for i := range 9 {
					l.records = append(l.records, record(t, int64(i*2), i)) // gaps, as after compaction
				}
				f := &table{tokens: map[string]bool{}}
				if after {
					f.failAfter = fail
				} else {
					f.failBefore = fail
				}
				for attempt := 0; l.committed.Offset < 17; attempt++ {
					if attempt > 20 {
						t.Fatalf("fail %d after %v: no end, at %+v", fail, after, l.committed)
					}
					if err := process(t, l, f, 4-attempt%3); err != nil && !errors.Is(err, errDown) {
						t.Fatal(err)
					}
					if forgets {
						f.tokens = map[string]bool{}
					}
				}
				if want := []int64{0, 2, 4, 6, 8, 10, 12, 14, 16}; !slices.Equal(f.offsets(), want) {
					t.Errorf("insert %d fails (after its effect: %v, window forgets: %v): %v", fail, after, forgets, f.offsets())
				}
			}
		}
	}
}

// A journal duplicate is no second row, also when it is the first record after a take-over.
func TestJournalDuplicates(t *testing.T) {
	l := &log{committed: bus.Committed{Offset: -1}, records: []bus.Record{record(t, 0, 0), record(t, 1, 1), record(t, 2, 0), record(t, 3, 1), record(t, 4, 2)}}
	f := &table{tokens: map[string]bool{}}
	for range 3 {
		if err := process(t, l, f, 2); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{0, 1, 4}; !slices.Equal(f.offsets(), want) {
		t.Errorf("rows at %v, want %v", f.offsets(), want)
	}
}

// One insert is one month, and its token is a function of the range.
func TestOneMonthPerInsert(t *testing.T) {
	l := &log{committed: bus.Committed{Offset: -1}, records: []bus.Record{record(t, 5, 0), record(t, 6, 1), record(t, 7, 2)}}
	f := &table{tokens: map[string]bool{}}
	if err := process(t, l, f, 9); err != nil {
		t.Fatal(err)
	}
	want := []string{"ledger.entries.v1|0|5|7|202603", "ledger.entries.v1|0|5|7|202604"}
	if got := slices.Sorted(maps.Keys(f.tokens)); !slices.Equal(got, want) {
		t.Errorf("tokens %q", got)
	}
}

// A marker is no row, also alone in its batch, and does not stop what follows; crashes around it leave every entry once.
func TestMarkersAreNoRows(t *testing.T) {
	mark := func(offset int64) bus.Record {
		r, err := ledgercodec.Record(ledger.NewMarker(fmt.Sprintf("epoch:%d:raised:0", offset+1), ledger.Marker{Epoch: offset + 1, Phase: ledger.Raised}, time.Unix(1, 0), ledger.Position{}))
		if err != nil {
			t.Fatal(err)
		}
		r.Offset = offset
		return r
	}
	for fail := range 4 {
		l := &log{committed: bus.Committed{Offset: -1}, records: []bus.Record{mark(0), mark(1), record(t, 2, 0), mark(3), record(t, 4, 1), mark(5), record(t, 6, 2)}}
		f := &table{tokens: map[string]bool{}, failAfter: fail}
		for l.committed.Offset < 7 {
			if err := process(t, l, f, 2); err != nil && !errors.Is(err, errDown) {
				t.Fatal(err)
			}
		}
		if want := []int64{2, 4, 6}; !slices.Equal(f.offsets(), want) {
			t.Errorf("rows at %v, want %v", f.offsets(), want)
		}
	}
}

func TestBrokenJournalStopsTheProcess(t *testing.T) {
	r := record(t, 0, 0)
	r.Value = []byte{1}
	l := &log{committed: bus.Committed{Offset: -1}, records: []bus.Record{r}}
	if err := process(t, l, &table{}, 1); !errors.As(err, new(bus.Fatal)) {
		t.Errorf("got %v", err)
	}
	l = &log{committed: bus.Committed{Offset: 3, Metadata: "v2;something"}, records: nil}
	if err := process(t, l, &table{}, 1); !errors.As(err, new(bus.Fatal)) {
		t.Errorf("unknown metadata: %v", err)
	}
}

func FuzzParseIntent(f *testing.F) {
	for _, s := range []string{"", "v1;pending=0..0", "v1;pending=12..99", "v1;pending=9..1", "v1;pending=-1..2", "v1;pending=1..", "v2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, pending, err := parseIntent(s)
		if err != nil || !pending {
			if pending {
				t.Fatalf("%q: pending with %v", s, err)
			}
			return
		}
		again, _, err := parseIntent(i.String())
		if err != nil || again != i || i.to < i.from {
			t.Fatalf("%q: %+v, %+v, %v", s, i, again, err)
		}
	})
}

func TestOpen(t *testing.T) {
	for address, database := range map[string]string{
		"http://127.0.0.1:8123": "weir", "http://u:p@127.0.0.1:8123/other": "other", "clickhouse://u:p@h:9000/weir?secure=true": "weir", "https://h:8443": "weir",
	} {
		c, err := Open(address)
		if err != nil || c.database != database {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{"", "127.0.0.1:8123", "postgres://h/db", "http://", "://", "http://h:1/?password_file=/does/not/exist"} {
		if _, err := Open(address); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
