//go:build integration

package migrate_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/testkit"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func tables(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var names string
	err := conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(tablename, ' ' ORDER BY tablename), '') FROM pg_tables WHERE schemaname = 'public'").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPostgres: first run, repeat, a migration whose check fails and one whose SQL fails (both leave nothing), changed file.
func TestPostgres(t *testing.T) {
	conn := connect(t, testkit.Postgres(t))
	one := []string{"0001_a.up.sql", "CREATE TABLE a (n int); INSERT INTO a VALUES (1);", "0001_a.check.sql", "SELECT count(*) = 1 FROM a; SELECT 'row', n FROM a WHERE n > 1;"}
	with := func(up, check string) []string {
		return append(one[:4:4], "0002_b.up.sql", up, "0002_b.check.sql", check)
	}
	for _, step := range []struct {
		files   []string
		applied int
		fails   string
		tables  string
	}{
		{one, 1, "", "a schema_migrations"},
		{one, 0, "", "a schema_migrations"},
		{with("CREATE TABLE b (); INSERT INTO a VALUES (2)", "SELECT true; SELECT 'too many', n FROM a WHERE n > 1"), 0, "check 2 of 0002_b found: too many, 2", "a schema_migrations"},
		{with("CREATE TABLE b (); CREATE TABLE a ()", "SELECT true"), 0, "already exists", "a schema_migrations"},
		{with("CREATE TABLE b ()", "SELECT NULL"), 0, "check 1 of 0002_b", "a schema_migrations"},
		{with("CREATE TABLE b ()", "SELECT count(*) = 1 FROM a"), 1, "", "a b schema_migrations"},
		{with("CREATE TABLE b (changed int)", "SELECT count(*) = 1 FROM a"), 0, "changed", "a b schema_migrations"},
		{one, 0, "newer", "a b schema_migrations"},
	} {
		done, err := migrate.Postgres(t.Context(), conn, files(step.files...))
		if len(done) != step.applied || (err == nil) != (step.fails == "") || err != nil && !strings.Contains(err.Error(), step.fails) {
			t.Fatalf("%q: applied %d, %v", step.files, len(done), err)
		}
		if got := tables(t, conn); got != step.tables {
			t.Fatalf("%q: tables %s", step.files, got)
		}
	}
}

// TestPostgresTogether: four runs at once apply each migration once.
func TestPostgresTogether(t *testing.T) {
	url := testkit.Postgres(t)
	set := files("0001_a.up.sql", "CREATE TABLE a (); SELECT pg_sleep(0.05)", "0001_a.check.sql", "SELECT true",
		"0002_b.up.sql", "CREATE TABLE b ()", "0002_b.check.sql", "SELECT true")
	var all sync.WaitGroup
	applied := make(chan int, 4)
	for range 4 {
		conn := connect(t, url)
		all.Go(func() {
			done, err := migrate.Postgres(t.Context(), conn, set)
			if err != nil {
				t.Error(err)
			}
			applied <- len(done)
		})
	}
	all.Wait()
	close(applied)
	total := 0
	for n := range applied {
		total += n
	}
	if total != 2 {
		t.Fatalf("%d migrations applied", total)
	}
}
