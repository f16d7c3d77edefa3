//go:build integration

package pgstore_test

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/testkit"
)

const (
	storedEnd = `INSERT INTO reservations (tenant_id, reservation_id, reserved_at, outcome, fingerprint, own_mode, own_nanos, held_nanos, epoch, event_id, call, answer)
		VALUES ($1::text, $2::text, now(), $3::text, '', $4::text, $5::bigint, $6::bigint, 7, $7, '', '')`
	storedEvent = `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, partition)
		VALUES ($1::text, 'tenant', $2::text, 't', '', $3::text::jsonb, $4::integer)`
)

// migrations are those whose names match.
func migrations(f fixture, pattern string) fs.FS {
	f.t.Helper()
	all, some := os.DirFS("../../migrations/postgres"), fstest.MapFS{}
	names, err := fs.Glob(all, pattern)
	f.must(err)
	for _, name := range names {
		text, err := fs.ReadFile(all, name)
		f.must(err)
		some[name] = &fstest.MapFile{Data: text}
	}
	return some
}

// Goal: tables with rows from before the domains keep them, unwritten, and refuse then what they refused before.
func TestDomainsTakeOver(t *testing.T) {
	address := testkit.Postgres(t)
	f := fixture{t: t, address: address}
	conn := f.connect()
	before, with := migrations(f, "000[1-5]_*.sql"), migrations(f, "000[1-7]_*.sql")
	_, err := migrate.Postgres(t.Context(), conn, before)
	f.must(err)
	f.refuses(conn)
	f.stored(conn, storedEnd, "acme", "r0", "settled", "direct", 0, 1<<53-1, "e0")
	f.stored(conn, storedEvent, "e0", "acme", `{"name": "text"}`, 0)
	was := f.files(conn)

	done, err := migrate.Postgres(t.Context(), conn, with)
	f.must(err)
	if len(done) != 2 {
		t.Errorf("applied %v", done)
	}
	if is := f.files(conn); is != was {
		t.Errorf("files %s became %s: something was rewritten", was, is)
	}
	f.refuses(conn)
	f.stored(conn, storedEnd, "acme", "r1", "released", "", 0, 0, "")
	f.stored(conn, storedEvent, "e1", "acme", "{}", nil)
	if ids := f.events(); len(ids) != 2 {
		t.Errorf("events %v", ids)
	}
}

func (f fixture) stored(conn *pgx.Conn, sql string, values ...any) {
	f.t.Helper()
	_, err := conn.Exec(f.t.Context(), sql, values...)
	f.must(err)
}

// files are the files of the tables and of an index.
func (f fixture) files(conn *pgx.Conn) (names string) {
	f.t.Helper()
	f.must(conn.QueryRow(f.t.Context(), `SELECT pg_relation_filenode('reservations') || ' ' || pg_relation_filenode('reservations_pkey') || ' ' ||
		pg_relation_filenode('outbox_0')`).Scan(&names))
	return names
}

// refuses checks that no column takes what it must not.
func (f fixture) refuses(conn *pgx.Conn) {
	f.t.Helper()
	for _, bad := range []struct {
		sql    string
		values []any
	}{
		{storedEnd, []any{"", "r", "settled", "direct", 0, 0, "e"}},
		{storedEnd, []any{"acme", "", "settled", "direct", 0, 0, "e"}},
		{storedEnd, []any{"acme", "r", "forgotten", "direct", 0, 0, ""}},
		{storedEnd, []any{"acme", "r", "settled", "both", 0, 0, "e"}},
		{storedEnd, []any{"acme", "r", "settled", "direct", -1, 0, "e"}},
		{storedEnd, []any{"acme", "r", "settled", "direct", 1 << 53, 0, "e"}},
		{storedEnd, []any{"acme", "r", "settled", "direct", 0, -1, "e"}},
		{storedEnd, []any{"acme", "r", "settled", "direct", 0, 1 << 53, "e"}},
		{storedEvent, []any{"", "acme", "{}", nil}},
		{storedEvent, []any{"e", "", "{}", nil}},
		{storedEvent, []any{"e", "acme", "[]", nil}},
		{storedEvent, []any{"e", "acme", `{"name": 1}`, nil}},
		{storedEvent, []any{"e", "acme", "{}", -1}},
	} {
		if _, err := conn.Exec(f.t.Context(), bad.sql, bad.values...); err == nil {
			f.t.Errorf("taken: %v", bad.values)
		}
	}
}
