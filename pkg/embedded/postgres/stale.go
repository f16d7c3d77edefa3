package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// clearStaleLock removes the postmaster.pid that a killed server left, if no process works in the data folder any more.
// Postgres itself only asks whether the pid exists: where nobody reaps orphans, as in a container without an init, a
// killed server stays there as a zombie and would bar every later start.
func (c Config) clearStaleLock() error {
	lock := filepath.Join(c.data(), "postmaster.pid")
	if _, err := os.Stat(lock); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, err := filepath.EvalSymlinks(c.data())
	if err != nil {
		return fmt.Errorf("postgres data: %w", err)
	}
	// The server and each of its sessions have the data folder as working directory; a zombie has none.
	folders, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(folders) == 0 {
		return err // no /proc: leave it to Postgres
	}
	for _, f := range folders {
		if cwd, err := os.Readlink(f); err == nil && cwd == data {
			return nil // it runs, or one of its sessions does: Postgres will say so
		}
	}
	if err := os.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lock file of a server that is gone: %w", err)
	}
	return nil
}
