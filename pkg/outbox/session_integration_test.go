//go:build integration

package outbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

func wide() outbox.Limits { return outbox.Limits{Rows: 1000, Bytes: 10 << 20} }

// TestRoundTrip: every field comes back as it was written, to the byte, and a rolled-back event does not come.
func TestRoundTrip(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	partition := int32(3)
	in := outbox.Event{ID: "e1", AggregateType: "tenant", AggregateID: "acme", Type: "weir.usage.v1", Topic: "usage.events.v1", Partition: &partition,
		Payload: []byte("\x00\xff{ \"b\": 1,\"a\":2 }"), Headers: map[string]string{"content-type": "application/cloudevents+json", "ü": "é\n"}}
	tx := begin(t, w)
	appendTo(t, tx, event("acme", "never"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, w, in, event("acme", "e2"))
	b := next(t, s, wide())
	if len(b.Rows) != 2 {
		t.Fatalf("rows: %v", idsOf(b))
	}
	got := b.Rows[0]
	if got.ID != in.ID || got.AggregateType != in.AggregateType || got.AggregateID != in.AggregateID || got.Type != in.Type || got.Topic != in.Topic ||
		*got.Partition != partition || !bytes.Equal(got.Payload, in.Payload) || fmt.Sprint(got.Headers) != fmt.Sprint(in.Headers) || got.CreatedAt.IsZero() {
		t.Fatalf("got %+v", got)
	}
	if second := b.Rows[1]; second.Partition != nil || second.Topic != "" || second.Seq <= got.Seq {
		t.Fatalf("got %+v", second)
	}
}

// Goal: all headers of a row arrive, whoever wrote it and wherever they are: among the others or in a column, which goes before.
// Parked, they are one object.
func TestHeaders(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	const plain = `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, content_type, signature) VALUES ('e', 'tenant', 'acme', 't', '', `
	want := []map[string]string{{}, {"a": "b", "content-type": "c"}, nil, {"content-type": "c", "weir-signature": "s"}, {"a": "b", "weir-signature": "s"},
		{"content-type": "", "weir-signature": "\uFFFD", "a": "b"}}
	for _, values := range []string{`DEFAULT, NULL, NULL)`, `'{"a": "b", "content-type": "c"}', NULL, NULL)`, `NULL, NULL, NULL)`, `NULL, 'c', 's')`,
		`'{"a": "b", "weir-signature": "x"}', NULL, 's')`} {
		exec(t, w, plain+values)
	}
	mended := event("acme", "e")
	mended.Headers = map[string]string{"content-type": "", "weir-signature": "\xff", "a": "b"}
	write(t, w, mended)
	b := next(t, s, wide())
	var parked []outbox.Parked
	for i, r := range b.Rows {
		if !maps.Equal(r.Headers, want[i]) {
			t.Errorf("row %d: %v, want %v", i, r.Headers, want[i])
		}
		parked = append(parked, outbox.Parked{Seq: r.Seq, Reason: "test"})
	}
	if len(b.Rows) != len(want) {
		t.Fatalf("%d rows", len(b.Rows))
	}
	advance(t, s, b, parked...)
	rows, err := w.Query(t.Context(), "SELECT headers FROM outbox_parked ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[map[string]string])
	if err != nil {
		t.Fatal(err)
	}
	for i, headers := range kept {
		if !maps.Equal(headers, want[i]) {
			t.Errorf("parked %d: %v, want %v", i, headers, want[i])
		}
	}
}

// TestPlainSQL: another orchestrator needs no more than an INSERT, and cannot insert what the relay could not carry.
func TestPlainSQL(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	exec(t, w, `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ('e1', 'tenant', 'acme', 'weir.usage.v1', convert_to('{}', 'UTF8'))`)
	for _, bad := range []string{
		`('', 'tenant', 'acme', 't', '', '{}')`, `('e', 'tenant', '', 't', '', '{}')`, `('e', 'tenant', 'acme', 't', '', '[]')`,
		`('e', 'tenant', 'acme', 't', '', '{"a": 1}')`, `('e', 'tenant', 'acme', 't', '', '{"a": ["b"]}')`, `('e', 'tenant', 'acme', 't', NULL, '{}')`,
	} {
		if _, err := w.Exec(t.Context(), "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers) VALUES "+bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"e1"}) {
		t.Fatalf("got %v", got)
	}
}

// TestDocumentedSQL runs the example of docs/outbox.md as it stands there.
func TestDocumentedSQL(t *testing.T) {
	text, err := os.ReadFile("../../docs/outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```sql\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no SQL block in docs/outbox.md")
	}
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	exec(t, w, "CREATE TABLE accounts (tenant text, spent int)")
	if _, err := w.PgConn().Exec(t.Context(), example).ReadAll(); err != nil {
		t.Fatal(err)
	}
	b := next(t, s, wide())
	if len(b.Rows) != 1 || b.Rows[0].AggregateID != "acme" || !json.Valid(b.Rows[0].Payload) || len(b.Rows[0].Headers) != 1 {
		t.Fatalf("%+v", b.Rows)
	}
}

// TestIdleWriters: a write transaction that stays open, in this database or another one, delays its own rows only. They
// come in a later tick, though their numbers are lower.
func TestIdleWriters(t *testing.T) {
	url, other := database(t), database(t)
	s, w := lead(t, url), connect(t, url)
	elsewhere := begin(t, connect(t, other))
	appendTo(t, elsewhere, event("other", "elsewhere"))
	here := begin(t, connect(t, url))
	exec(t, here, "CREATE TABLE held ()") // has a transaction number, and no row yet
	slow := begin(t, connect(t, url))
	appendTo(t, slow, event("slow", "s1"), event("slow", "s2"))
	for i := range 3 {
		id := fmt.Sprintf("f%d", i)
		write(t, w, event("fast", id))
		if got := drain(t, s, wide()); !slices.Equal(got, []string{id}) {
			t.Fatalf("got %v, want %s", got, id)
		}
	}
	commit(t, slow)
	appendTo(t, here, event("here", "h1"))
	commit(t, here)
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"s1", "s2", "h1"}) {
		t.Fatalf("late rows: %v", got)
	}
}

// TestLargeTick: a tick of many batches keeps its order, survives a new leader in the middle, is not disturbed by rows
// that commit meanwhile, and obeys both limits.
func TestLargeTick(t *testing.T) {
	url := database(t)
	w := connect(t, url)
	slow := begin(t, connect(t, url))
	appendTo(t, slow, event("slow", "slow"))
	var want []string
	tx := begin(t, w)
	for i := range 25 {
		id := fmt.Sprintf("e%02d", i)
		want = append(want, id)
		appendTo(t, tx, event("acme", id))
	}
	commit(t, tx)
	first := lead(t, url)
	limits := outbox.Limits{Rows: 10, Bytes: 1 << 20}
	b := next(t, first, limits)
	advance(t, first, b)
	got := idsOf(b)
	commit(t, slow)
	write(t, w, event("acme", "later"))
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := lead(t, url)
	b = next(t, second, outbox.Limits{Rows: 10, Bytes: 9}) // three ids of three bytes and "{}" each
	if len(b.Rows) == 0 || len(b.Rows) > 3 {
		t.Fatalf("byte limit: %v", idsOf(b))
	}
	got = append(append(got, idsOf(b)...), func() []string { advance(t, second, b); return drain(t, second, limits) }()...)
	if tail := got[25:]; !slices.Equal(got[:25], want) || !slices.Equal(tail, []string{"slow", "later"}) {
		t.Fatalf("got %v", got)
	}
}

// TestExactBatches: ticks whose size is a multiple of the row limit end properly.
func TestExactBatches(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	for n := range 9 {
		tx := begin(t, w)
		for i := range n {
			appendTo(t, tx, event("k", fmt.Sprintf("%d-%d", n, i)))
		}
		commit(t, tx)
		if got := drain(t, s, outbox.Limits{Rows: 2, Bytes: 1 << 20}); len(got) != n {
			t.Fatalf("%d rows: got %v", n, got)
		}
	}
}

// TestNotAdvanced: what was read but not recorded comes again, with the same leader and with the next.
func TestNotAdvanced(t *testing.T) {
	url := database(t)
	write(t, connect(t, url), event("a", "1"), event("a", "2"))
	for range 2 {
		s := lead(t, url)
		for range 2 {
			if got := idsOf(next(t, s, wide())); !slices.Equal(got, []string{"1", "2"}) {
				t.Fatalf("got %v", got)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneLeader: a second session waits until the first is gone, and a cursor that was moved behind a leader's back
// fences it.
func TestOneLeader(t *testing.T) {
	url := database(t)
	first, second := lead(t, url), open(t, url)
	if led, err := second.TryLead(t.Context()); led || err != nil {
		t.Fatalf("second leader: %v %v", led, err)
	}
	w := connect(t, url)
	write(t, w, event("a", "1"))
	b := next(t, first, wide())
	exec(t, w, "UPDATE outbox_cursor SET tick = tick + 1")
	if err := first.Advance(t.Context(), b, nil); !errors.Is(err, outbox.ErrFenced) {
		t.Fatalf("advance: %v", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Check(t.Context()); err == nil {
		t.Fatal("a closed session says that it leads")
	}
	lead(t, url)
}

// TestMovedRow: the cursor is found again after VACUUM FULL has moved it.
func TestMovedRow(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	for i := range 3 {
		write(t, w, event("a", fmt.Sprint(i)))
		drain(t, s, wide())
	}
	exec(t, w, "VACUUM FULL outbox_cursor")
	write(t, w, event("a", "after"))
	if got := drain(t, s, wide()); !slices.Equal(got, []string{"after"}) {
		t.Fatal(got)
	}
}

// TestParked: a row that no broker takes is set aside whole, and the stream goes on; parking twice is harmless.
func TestParked(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	write(t, w, event("a", "1"), event("a", "2"))
	b := next(t, s, wide())
	exec(t, w, "INSERT INTO outbox_parked (seq, id, aggregatetype, aggregateid, type, payload, headers, created_at, reason) VALUES ($1, '1', 't', 'a', 't', '', '{}', now(), 'old')",
		b.Rows[0].Seq)
	advance(t, s, b, outbox.Parked{Seq: b.Rows[0].Seq, Reason: "too_large"}, outbox.Parked{Seq: b.Rows[1].Seq, Reason: "too_large"})
	if n := count(t, w, "SELECT count(*) FROM outbox_parked WHERE payload IN ('', '2')"); n != 2 {
		t.Fatalf("%d rows parked", n)
	}
	if m, err := s.Measure(t.Context()); err != nil || m.Parked != 2 || m.Rows != 0 {
		t.Fatalf("%+v %v", m, err)
	}
}

// TestForeign: with a cursor or rows of another cluster the session refuses; after outbox_adopt all is published again.
func TestForeign(t *testing.T) {
	url := database(t)
	w, s := connect(t, url), lead(t, url)
	write(t, w, event("a", "1"))
	drain(t, s, wide())
	exec(t, w, "UPDATE outbox SET xid = '99999999999'")
	if _, err := s.Next(t.Context(), wide()); !errors.Is(err, outbox.ErrForeign) {
		t.Fatalf("foreign row: %v", err)
	}
	exec(t, w, "UPDATE outbox_cursor SET system_identifier = 1")
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open(t, url)
	_, err := s.TryLead(t.Context())
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); { // the server may hold the lead of the closed session for a moment
		_, err = s.TryLead(t.Context())
	}
	if !errors.Is(err, outbox.ErrForeign) || !strings.Contains(err.Error(), "outbox_adopt") {
		t.Fatalf("foreign cursor: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, w, event("a", "2"))
	if n := count(t, w, "SELECT outbox_adopt()"); n != 2 {
		t.Fatalf("adopted %d", n)
	}
	if got := drain(t, lead(t, url), wide()); !slices.Equal(got, []string{"1", "2"}) {
		t.Fatalf("after adoption: %v", got)
	}
}

// TestMeasure counts before the first leader, between ticks and within one.
func TestMeasure(t *testing.T) {
	url := database(t)
	w, m := connect(t, url), open(t, url)
	check := func(when string, want int64) {
		t.Helper()
		got, err := m.Measure(t.Context())
		if err != nil || got.Rows != want || (got.Oldest > 0) != (want > 0) {
			t.Fatalf("%s: %+v %v, want %d rows", when, got, err, want)
		}
	}
	check("empty", 0)
	write(t, w, event("a", "1"), event("a", "2"), event("a", "3"))
	check("no leader yet", 3)
	s := lead(t, url)
	advance(t, s, next(t, s, outbox.Limits{Rows: 2, Bytes: 1 << 20}))
	check("within a tick", 1)
	write(t, w, event("a", "4"))
	check("within a tick, and after", 2)
	drain(t, s, wide())
	check("all published", 0)
}
