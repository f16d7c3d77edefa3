//go:build integration

package install_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/testkit"
)

// counting is a Reporter that counts downloads.
type counting struct {
	install.Silent
	begun int
}

func (c *counting) Begin(string, int64) { c.begun++ }

func TestNothingIsBroughtTwice(t *testing.T) {
	ctx := context.Background()
	for round := range 2 {
		heard := &counting{}
		i, err := install.New("", heard)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Redis(ctx); err != nil {
			t.Error(err)
		}
		if dir, err := i.Postgres(ctx, 0); err != nil || strings.HasPrefix(dir, "/usr/local/bin") {
			t.Errorf("postgres: %s, %v", dir, err)
		}
		if e, err := i.ClickHouse(ctx); err != nil || e.Binary == "" && e.Library == "" {
			t.Errorf("clickhouse: %+v, %v", e, err)
		}
		if round == 1 && heard.begun != 0 {
			t.Errorf("the second time %d things were brought", heard.begun)
		}
	}
}

// TestRedisWithoutItsServicePackage takes the program from redis-tools, as on a machine without redis-server.
func TestRedisWithoutItsServicePackage(t *testing.T) {
	if _, err := testkit.Installer(t).Redis(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/bin/redis-check-rdb"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	cache := t.TempDir()
	i, err := install.New(cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, err := i.Redis(context.Background())
	if err != nil || path != filepath.Join(cache, "bin", "redis-server") {
		t.Fatalf("%s, %v", path, err)
	}
	if out, err := exec.Command(path, "--version").Output(); err != nil || !strings.HasPrefix(string(out), "Redis server") {
		t.Errorf("%s: %v", out, err)
	}
}
