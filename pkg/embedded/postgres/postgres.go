// Package postgres runs a Postgres cluster of ours: loopback TCP only, passwords (SCRAM) even there, fsync on.
//
// Invariants: the process that Start reports is the postmaster itself; a data folder is either complete or absent,
// whatever was killed during its creation; the server never runs as root, which it would refuse.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// The superuser and the database of an embedded cluster.
const (
	User     = "weir"
	Database = "weir"
)

// Config says where it lives and which programs it runs.
type Config struct {
	part.Config
	// BinDir holds postgres and initdb, version 15 or later, and the same major version as existing data.
	BinDir string
	// NoSync trades durability for speed: for tests that do not kill the server.
	NoSync bool
}

func (c Config) data() string { return filepath.Join(c.Dir, "data") }

// Start makes the cluster if it is not there, runs it and returns when the database weir answers.
func Start(ctx context.Context, c Config) (*part.Part, error) {
	var err error
	if c.Config, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("postgres folder: %w", err)
	}
	lock, err := part.Lock(part.LockOf(c.Dir))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	acc, err := serverAccount(c.Dir)
	if err != nil {
		return nil, err
	}
	password, err := c.password()
	if err != nil {
		return nil, err
	}
	if err := c.create(ctx, acc, password, lock); err != nil {
		return nil, err
	}
	if err := c.clearStaleLock(); err != nil {
		return nil, err
	}
	address := (&url.URL{Scheme: "postgres", User: url.UserPassword(User, password), Host: c.Addr(), Path: "/" + Database, RawQuery: "sslmode=disable"}).String()
	p, err := part.Spawn(part.Command{
		Kind: part.KindPostgres, Address: address, Path: filepath.Join(c.BinDir, "postgres"), Dir: "/", LogFile: c.LogFile, Lock: lock,
		Args: c.serverArgs(), Env: []string{"LC_ALL=C"}, User: acc.credential, Ambient: acc.ambient,
		Signal: syscall.SIGINT, // fast shutdown: end the clients' sessions, write a checkpoint
	})
	if err != nil {
		return nil, err
	}
	return p.Started(ctx, func(ctx context.Context) error { return ready(ctx, address) })
}

func (c Config) serverArgs() []string {
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(c.Port), "unix_socket_directories=",
		"max_connections=200", "shared_buffers=64MB", "fsync=on", "synchronous_commit=on", "timezone=UTC", "log_timezone=UTC",
	}
	if c.NoSync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", c.data()}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

// password reads the superuser's password, or makes it. Only our own user can read the file.
func (c Config) password() (string, error) {
	file := filepath.Join(c.Dir, "password")
	b, err := os.ReadFile(file)
	if err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("postgres password: %w", err)
	}
	password := rand.Text()
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("postgres password: %w", err)
	}
	return password, nil
}

// noDatabase is SQLSTATE invalid_catalog_name.
const noDatabase = "3D000"

// ready connects to the database weir and makes it when the server says that it is not there.
func ready(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err == nil {
		return conn.Close(ctx)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != noDatabase {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return fmt.Errorf("postgres address: %w", err)
	}
	cfg.Database = "postgres"
	if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+Database)
	return errors.Join(err, conn.Close(ctx))
}
