//go:build integration

package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/testkit"
)

// database makes a migrated database and returns its URL.
func database(t testing.TB) string { return testkit.MigratedPostgres(t) }

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t testing.TB, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func begin(t testing.TB, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func event(key, id string) outbox.Event {
	return outbox.Event{ID: id, AggregateType: "tenant", AggregateID: key, Type: "weir.usage.v1", Payload: []byte(id)}
}

// write appends events in one transaction of its own.
func write(t testing.TB, conn *pgx.Conn, events ...outbox.Event) {
	t.Helper()
	tx := begin(t, conn)
	appendTo(t, tx, events...)
	commit(t, tx)
}

func appendTo(t testing.TB, tx pgx.Tx, events ...outbox.Event) {
	t.Helper()
	for _, e := range events {
		if err := outbox.Append(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
	}
}

// patience bounds every wait of these tests; nothing waits that long when all is well.
const patience = 2 * time.Minute

// lead opens a session and takes the lead, which the server may free a moment after the last leader closed.
func lead(t testing.TB, url string) *outbox.Session {
	t.Helper()
	s := open(t, url)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		led, err := s.TryLead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if led {
			return s
		}
	}
	t.Fatal("the lead is never free")
	return nil
}

func open(t testing.TB, url string) *outbox.Session {
	t.Helper()
	s, err := outbox.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func next(t testing.TB, s *outbox.Session, l outbox.Limits) outbox.Batch {
	t.Helper()
	b, err := s.Next(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func advance(t testing.TB, s *outbox.Session, b outbox.Batch, parked ...outbox.Parked) {
	t.Helper()
	if err := s.Advance(t.Context(), b, parked); err != nil {
		t.Fatal(err)
	}
}

// drain reads and acknowledges until nothing is left and returns the ids in their order.
func drain(t testing.TB, s *outbox.Session, l outbox.Limits) []string {
	t.Helper()
	var ids []string
	for {
		b := next(t, s, l)
		if len(b.Rows) == 0 {
			return ids
		}
		ids = append(ids, idsOf(b)...)
		advance(t, s, b)
	}
}

func idsOf(b outbox.Batch) []string {
	var ids []string
	for _, r := range b.Rows {
		ids = append(ids, r.ID)
	}
	return ids
}

func rotate(t testing.TB, s *outbox.Session) outbox.Rotation {
	t.Helper()
	r, err := s.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func count(t testing.TB, conn *pgx.Conn, sql string) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
