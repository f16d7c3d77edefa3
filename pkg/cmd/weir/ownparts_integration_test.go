//go:build integration

package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/testkit"
)

// TestOwnParts gives `up` parts of the user's own, each behind a password, Kafka behind TLS as well: nothing is created in
// them before `weir init`, their processes are not ours, their passwords stand nowhere but in files of the owner's, and
// `down` leaves them alone.
func TestOwnParts(t *testing.T) {
	root := here(t)
	own := startOwnParts(t)
	p := newInstance(t)
	up := append([]string{"up"}, own.flags()...)
	a := p.run(up...)
	if a.code != 3 || !strings.Contains(a.err, "weir init") || !strings.Contains(a.err, "topic usage.events.v1: missing") {
		t.Errorf("up before init: %+v", a)
	}
	if tables := postgresTables(t, own.postgres); tables != "" {
		t.Errorf("created silently in Postgres: %s", tables)
	}
	if tables, err := testkit.QueryClickHouse(t.Context(), own.clickhouse, "SHOW TABLES"); err != nil || tables != "" {
		t.Errorf("created silently in ClickHouse: %q, %v", tables, err)
	}
	// One after the other, each missing thing is named until it is there.
	p.must("init", "--kafka", own.kafka)
	if a := p.run(up...); a.code != 3 || !strings.Contains(a.err, "postgres") || !strings.Contains(a.err, "weir init") {
		t.Errorf("up with Kafka alone: %+v", a)
	}
	p.must("init", "--postgres", own.postgres)
	if a := p.run(up...); a.code != 3 || !strings.Contains(a.err, "clickhouse") || !strings.Contains(a.err, "weir init") {
		t.Errorf("up without ClickHouse's tables: %+v", a)
	}
	p.must("init", "--clickhouse", own.clickhouse)
	all := append([]string{"init"}, own.flags()...)
	if a := p.must(append(all, "--json")...); !strings.Contains(a.out, `"redis"`) {
		t.Errorf("init: %+v", a)
	}
	p.must(all...) // again: nothing is left to do
	own.checkWrongPasswords(p)

	a = p.must(up...)
	own.noSecret("up", a.out+a.err)
	own.checkStatus(p)
	key := p.fill(root)
	p.spend(key, "r1")
	own.checkBooks(p, `"billed_cost_usd": "0.002925"`)
	own.checkProcesses(p)
	p.must("down")
	own.checkAlone()
	p.must("up") // the addresses are remembered
	p.spend(key, "r2")
	own.checkProcesses(p)
	// The same parts with the passwords in files: the services are told, and go on where they were.
	p.must(append([]string{"up"}, own.byFile...)...)
	p.spend(key, "r3")
	own.checkBooks(p, `"billed_cost_usd": "0.008775"`)
	own.checkProcesses(p)
	p.must("down")
	own.checkAlone()
}

// TestPartsAwayAreNamed: an address where nothing answers is exit 3 and says which part.
func TestPartsAwayAreNamed(t *testing.T) {
	p := newInstance(t)
	a := p.run("up", "--kafka", "kafka://127.0.0.1:1", "--redis", "redis://127.0.0.1:1", "--postgres", "postgres://127.0.0.1:1/x", "--clickhouse", "http://127.0.0.1:1/weir")
	if a.code != 3 || !strings.Contains(a.err, "kafka") || !strings.Contains(a.err, "does not answer") {
		t.Errorf("%+v", a)
	}
	p = newInstance(t)
	for flag, want := range map[string]string{"--kafka": "kafka://host:port", "--redis": "redis://host:port", "--postgres": "parse", "--clickhouse": "http://host:port"} {
		if a := p.run("up", flag, "nonsense"); a.code != 2 || !strings.Contains(a.err, want) || !strings.Contains(a.err, flag) {
			t.Errorf("%s: %+v", flag, a)
		}
	}
	if len(p.pids()) != 0 {
		t.Errorf("started all the same: %v", p.pids())
	}
}

func postgresTables(t *testing.T, address string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var names string
	err = conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(tablename, ' ' ORDER BY tablename), '') FROM pg_tables WHERE schemaname = 'public'").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
