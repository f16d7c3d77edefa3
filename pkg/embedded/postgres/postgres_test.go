//go:build integration

package postgres_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/testkit"
)

// TestBelowAFolderThatBarsItsUser: run as root, the server is another user, and may still live below a 0700 folder.
func TestBelowAFolderThatBarsItsUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/a/data.new/left", 0o755); err != nil { // of an initdb that was killed
		t.Fatal(err)
	}
	p := testkit.PostgresServer(t, part.Config{Dir: dir + "/a"})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var version, database, pid int
	var listen string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, (current_database() = 'weir')::int, current_setting('listen_addresses'),
		(split_part(pg_read_file('postmaster.pid'), chr(10), 1)::int = $1)::int`, p.PID).Scan(&version, &database, &listen, &pid)
	if err != nil {
		t.Fatal(err)
	}
	if version < 150000 || database != 1 || listen != "127.0.0.1" || pid != 1 {
		t.Errorf("version %d, database weir %d, listens on %s, pid is the postmaster %d", version, database, listen, pid)
	}
	cfg, err := pgx.ParseConfig(p.Address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Password = "guess"
	if _, err := pgx.ConnectConfig(ctx, cfg); err == nil {
		t.Error("a wrong password was accepted")
	}
}
