package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// A lock file is removed when nothing works in the folder, and stays while something does.
func TestClearStaleLock(t *testing.T) {
	c := Config{Config: part.Config{Dir: t.TempDir()}}
	if err := c.clearStaleLock(); err != nil {
		t.Errorf("without a lock: %v", err)
	}
	lock := filepath.Join(c.data(), "postmaster.pid")
	write := func() {
		t.Helper()
		if err := os.MkdirAll(c.data(), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	session := exec.CommandContext(t.Context(), "sleep", "300")
	session.Dir = c.data()
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.clearStaleLock(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("removed under a running session: %v", err)
	}
	if err := session.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = session.Wait() // killed
	if err := c.clearStaleLock(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lock); err == nil {
		t.Error("a stale lock stays")
	}
}
