//go:build integration

package testkit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

func TestTestsDoNotSeeEachOther(t *testing.T) {
	first, second := testkit.Postgres(t), testkit.Postgres(t)
	a, b := testkit.ClickHouse(t), testkit.ClickHouse(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // from when they run
	defer cancel()
	if first == second {
		t.Errorf("one database for two tests: %s", first)
	} else if conn, err := pgx.Connect(ctx, first); err != nil {
		t.Error(err)
	} else {
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "CREATE TABLE t (a int)"); err != nil {
			t.Error(err)
		}
	}
	if _, err := testkit.QueryClickHouse(ctx, a, "CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a"); err != nil {
		t.Fatal(err)
	}
	if got, err := testkit.QueryClickHouse(ctx, b, "SHOW TABLES"); err != nil || got != "" {
		t.Errorf("tables of the other test: %q, %v", got, err)
	}
}

func TestRedisKeepsWhatItAcknowledged(t *testing.T) {
	ctx := context.Background()
	config := part.Config{Dir: t.TempDir()}
	p := testkit.RedisServer(t, config)
	set := connect(t, p.Address)
	if err := set.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"maxmemory-policy": "noeviction", "appendfsync": "always", "bind": "127.0.0.1"} {
		if got := set.ConfigGet(ctx, name).Val()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	again := testkit.RedisServer(t, config)
	if got := connect(t, again.Address).Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after a kill: %q, want v", got)
	}
}

func connect(t *testing.T, address string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPostgresSurvivesAKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// t.TempDir is 0755 below a folder that may be 0700: as root, the server's own user is barred there.
	config := part.Config{Dir: t.TempDir()}
	p := testkit.PostgresServer(t, config)
	exec(t, p.Address, "CREATE TABLE t AS SELECT 1 AS a")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	again := testkit.PostgresServer(t, config)
	conn, err := pgx.Connect(ctx, again.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var a int
	var fsync string
	if err := conn.QueryRow(ctx, "SELECT a, current_setting('fsync') FROM t").Scan(&a, &fsync); err != nil || a != 1 || fsync != "on" {
		t.Errorf("after a kill: a = %d, fsync = %s, %v", a, fsync, err)
	}
	// A client that stays connected must not delay the end: the server ends by itself, and need not be killed.
	if err := again.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if end := part.Tail(again.LogFile, 1); !strings.Contains(end, "database system is shut down") {
		t.Errorf("the last it said: %s", end)
	}
	if _, err := pgx.Connect(ctx, strings.Replace(p.Address, ":weir", ":wrong", 1)); err == nil {
		t.Error("a connection to a stopped server")
	}
}

func exec(t *testing.T, address, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}
