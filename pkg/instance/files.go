package instance

import (
	"fmt"
	"syscall"
)

const (
	// enoughFiles is what a process may have open at most: more costs some programs time, and helps none.
	enoughFiles = 65536
	// fewFiles is below what a few thousand idle callers need.
	fewFiles = 4096
)

// raiseFiles lets the processes that are started from now on open as many files, connections among them, as this user may. Go
// raises its own soft limit and gives its children the old one, until the limit is set by hand.
func raiseFiles(say func(format string, args ...any)) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	limit.Cur = min(limit.Max, enoughFiles)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur < fewFiles {
		say("each process may open only %d files, connections included (ulimit -Hn): callers beyond that wait; %d or more are better", limit.Cur, fewFiles)
	}
	return nil
}
