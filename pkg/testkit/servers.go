package testkit

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/embedded/clickhouse"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/postgres"
	"github.com/weir-project/weir/pkg/embedded/redis"
	"github.com/weir-project/weir/pkg/gen/migrations"
	"github.com/weir-project/weir/pkg/migrate"
)

// FinancePassword is the password of ClickHouse's read-only user finance in tests.
const FinancePassword = "finance-of-the-tests"

// Redis runs a redis-server for this test and returns its client URL.
func Redis(t testing.TB) (address string) {
	t.Helper()
	return RedisServer(t, part.Config{}).Address
}

// RedisServer is Redis with the process, for tests that kill it and start it again in the same folder.
func RedisServer(t testing.TB, c part.Config) *part.Part {
	t.Helper()
	ctx := startContext(t)
	binary, err := Installer(t).Redis(ctx)
	check(t, err)
	p, err := redis.Start(ctx, redis.Config{Config: inTemp(t, c), Binary: binary})
	check(t, err)
	stopAtEnd(t, p)
	return p
}

// PostgresServer runs a Postgres for this test, durable as that of `weir up`: for tests that kill it.
func PostgresServer(t testing.TB, c part.Config) *part.Part {
	t.Helper()
	p := startPostgres(t, inTemp(t, c), false)
	stopAtEnd(t, p)
	return p
}

func startPostgres(t testing.TB, c part.Config, noSync bool) *part.Part {
	t.Helper()
	ctx := startContext(t)
	bin, err := Installer(t).Postgres(ctx, 0)
	check(t, err)
	p, err := postgres.Start(ctx, postgres.Config{Config: c, BinDir: bin, NoSync: noSync})
	check(t, err)
	return p
}

// Postgres makes an empty database in the test binary's server and returns its client URL. The database is dropped
// with the test. The server does not sync: a test that kills it takes PostgresServer.
func Postgres(t testing.TB) (address string) {
	t.Helper()
	s := shared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	return newDatabase(t, s, "")
}

// MigratedPostgres is Postgres with Weir's tables. The migrations are applied once in a test binary, and copied.
func MigratedPostgres(t testing.TB) (address string) {
	t.Helper()
	s := shared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.migrated {
		check(t, migrateNew(withPath(t, sharedPostgres(t, s), template)))
		s.migrated = true
	}
	return newDatabase(t, s, " TEMPLATE "+template)
}

// template is the database that the migrated ones are copied from.
const template = "migrated"

// migrateNew fills the template. Its session must be over before it is copied; Postgres waits some seconds for that.
func migrateNew(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = migrate.Postgres(ctx, conn, migrations.Postgres)
	return errors.Join(err, conn.Close(ctx))
}

// sharedPostgres is the address of the test binary's server. It is started, with the template still empty, by the first
// that asks.
func sharedPostgres(t testing.TB, s *sharedServers) string {
	t.Helper()
	if s.postgres == nil {
		p := startPostgres(t, part.Config{Dir: filepath.Join(s.dir, "postgres")}, true)
		check(t, errors.Join(s.keep(p), execPostgres(p.Address, "CREATE DATABASE "+template)))
		s.postgres = p
	}
	return s.postgres.Address
}

func newDatabase(t testing.TB, s *sharedServers, like string) (address string) {
	t.Helper()
	server := sharedPostgres(t, s)
	name := s.nextDatabase()
	check(t, execPostgres(server, "CREATE DATABASE "+name+like))
	t.Cleanup(func() {
		if err := execPostgres(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return withPath(t, server, name)
}

func execPostgres(address, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// ClickHouseServer runs the ClickHouse of `weir up` for this test: for tests that kill it. The user finance has the
// password FinancePassword, default has none.
func ClickHouseServer(t testing.TB, c part.Config) *part.Part {
	t.Helper()
	p := startClickHouse(t, inTemp(t, c))
	stopAtEnd(t, p)
	return p
}

func startClickHouse(t testing.TB, c part.Config) *part.Part {
	t.Helper()
	ctx := startContext(t)
	engine, err := Installer(t).ClickHouse(ctx)
	check(t, err)
	secret := filepath.Join(shared(t).dir, "finance.password")
	check(t, os.WriteFile(secret, []byte(FinancePassword), 0o600))
	p, err := clickhouse.Start(ctx, clickhouse.Config{
		Config: c, Library: engine.Library, Binary: engine.Binary, Self: partCommand(t), FinancePasswordFile: secret,
	})
	check(t, err)
	return p
}

// ClickHouse makes an empty database in the test binary's server and returns its client URL (http://…/database, for
// clickhouse-go). The database is dropped with the test.
func ClickHouse(t testing.TB) (address string) {
	t.Helper()
	s := shared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clickhouse == nil {
		p := startClickHouse(t, part.Config{Dir: filepath.Join(s.dir, "clickhouse")})
		check(t, s.keep(p))
		s.clickhouse = p
	}
	name, server := s.nextDatabase(), s.clickhouse.Address
	ctx := startContext(t)
	_, err := QueryClickHouse(ctx, server, "CREATE DATABASE "+name)
	check(t, err)
	t.Cleanup(func() {
		if _, err := QueryClickHouse(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" SYNC"); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return withPath(t, server, name)
}

// withPath is the URL with another path: the database.
func withPath(t testing.TB, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	check(t, err)
	u.Path = "/" + name
	return u.String()
}
