package part

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// handOver is how long a killed process may still hold its files.
const handOver = 5 * time.Second

// LockOf is the lock file of a data folder.
func LockOf(dir string) string { return filepath.Join(dir, "lock") }

// Lock takes the lock of a file, and makes the file where it is missing. Command.Lock gives the lock to a process: it is the
// open file's, so that process and its children have it until the last of them has ended, however they end and whether or not
// anybody remembers them. Taken before the process is there and never let go, it keeps two from the same data.
func Lock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// Of a process that was killed the first thread may have ended, so that it seems gone, while others still hold its files.
	ctx, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	if err := Flock(ctx, f); err != nil {
		err = fmt.Errorf("%s is in use by %s: %w", filepath.Dir(path), names(Holders(path)), err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Flock takes the lock of an open file as soon as no other process has it. It fails when ctx ends.
func Flock(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// Holders are the processes that have the lock of a file. Whoever has only opened it, as a backup does, is none of them.
func Holders(path string) []*Part {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return nil // nobody has it: no need to look at every process
	}
	path, err = filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*") // those of other users are not shown
	if err != nil {
		return nil
	}
	var found []*Part
	last := -1
	for _, file := range files {
		var pid, fd int
		if to, err := os.Readlink(file); err != nil || to != path {
			continue
		}
		if _, err := fmt.Sscanf(file, "/proc/%d/fd/%d", &pid, &fd); err != nil || pid == last {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
		if err != nil || !strings.Contains(string(info), "FLOCK") {
			continue
		}
		if ticks, alive := startTicks(pid); alive {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			found = append(found, &Part{Kind: strings.TrimSpace(string(name)), PID: pid, Start: ticks})
			last = pid
		}
	}
	return found
}

// EndHolders ends the processes that have the lock of a file, and returns those that it found. The first of them, whose parents
// are none, are asked by sig; what is left after grace is killed.
func EndHolders(path string, sig syscall.Signal, grace time.Duration) ([]*Part, error) {
	found := Holders(path)
	var errs []error
	for _, p := range found {
		if !hasParentIn(p, found) {
			errs = append(errs, p.signal(sig))
		}
	}
	deadline := time.Now().Add(grace)
	for _, p := range found {
		p.waitGone(time.Until(deadline))
	}
	for _, p := range Holders(path) {
		errs = append(errs, p.Kill())
	}
	return found, errors.Join(errs...)
}

func hasParentIn(p *Part, all []*Part) bool {
	f := stat(p.PID)
	for _, other := range all {
		if len(f) > 1 && f[1] == fmt.Sprint(other.PID) {
			return true
		}
	}
	return false
}

// names says who has a lock, for people.
func names(all []*Part) string {
	if len(all) == 0 {
		return "another process"
	}
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("pid %d (%s)", p.PID, p.Kind))
	}
	return strings.Join(out, ", ")
}
