// Package install brings what the embedded parts lack on a bare Debian or Ubuntu machine.
//
// It owns the per-user cache of downloads and the way to each program. It does not own running them.
//
// Invariants: what is on the machine is used as it is; nothing is downloaded twice, however many run at once (one file
// lock per cache, finished things are renamed into place); before each download the Reporter hears what and how big;
// no packaged service or cluster is started, stopped, enabled or changed.
package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// Reporter hears what is being brought. Sizes are bytes; 0 means that it is not known.
type Reporter interface {
	// Begin is called before a download or an installation.
	Begin(what string, size int64)
	// Progress is called now and then with the bytes that are there, where a size is known.
	Progress(done int64)
	// End is called when it is in place.
	End(what string)
}

// Silent is a Reporter that tells nobody.
type Silent struct{}

// Begin implements Reporter.
func (Silent) Begin(string, int64) {}

// Progress implements Reporter.
func (Silent) Progress(int64) {}

// End implements Reporter.
func (Silent) End(string) {}

// UnsupportedError says that a part cannot be brought to this machine, and what to do instead.
type UnsupportedError struct {
	Missing string // e.g. redis-server
	Reason  string // e.g. "no apt-get here"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s is missing and cannot be installed (%s): install it, or run with parts of your own: "+
		"weir up --kafka kafka://HOST:PORT --redis redis://HOST:PORT --postgres postgres://USER@HOST/DB --clickhouse http://USER@HOST:PORT", e.Missing, e.Reason)
}

// Installer finds and brings programs.
type Installer struct {
	cache  string
	report Reporter
	run    runner
}

// New takes the cache folder; "" is $WEIR_CACHE, else weir in the user's cache folder. report may be nil.
func New(cache string, report Reporter) (*Installer, error) {
	if cache == "" {
		cache = os.Getenv("WEIR_CACHE")
	}
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no cache folder (set WEIR_CACHE): %w", err)
		}
		cache = filepath.Join(base, "weir")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	if report == nil {
		report = Silent{}
	}
	return &Installer{cache: cache, report: report, run: runCommand}, nil
}

// exclusive runs fn under the cache's lock, unless have already finds the thing; it looks again once it has the lock,
// as another process may have brought it meanwhile.
func (i *Installer) exclusive(ctx context.Context, have func() bool, fn func() error) error {
	if have() {
		return nil
	}
	if err := os.MkdirAll(i.cache, 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(i.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("cache lock: %w", err)
	}
	defer f.Close() // frees the lock
	if err := part.Flock(ctx, f); err != nil {
		return fmt.Errorf("wait for another installation: %w", err)
	}
	if have() {
		return nil
	}
	return fn()
}

// staged calls fill with an empty folder in the cache and renames it to name when fill succeeds. A folder of that name
// in the cache is therefore always whole.
func (i *Installer) staged(name string, fill func(dir string) error) error {
	dir, err := os.MkdirTemp(i.cache, "."+name+"-*")
	if err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	if err := os.Rename(dir, filepath.Join(i.cache, name)); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	return nil
}

// supported reports whether downloads fit this machine.
func supported(missing string) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return &UnsupportedError{Missing: missing, Reason: "this machine is " + runtime.GOOS + "/" + runtime.GOARCH + ", not linux/amd64"}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lastLines keeps error messages short.
func lastLines(out string, n int) string {
	all := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
