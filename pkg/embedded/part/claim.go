package part

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A claimed port has a mark: a file weir-port-N in the temporary folder, locked as long as the claiming process lives, whose
// text is the owner. Whoever opens, judges or removes marks holds one lock more while he does (marksLock): so nobody takes
// a look for a claim, and no mark is removed that another has opened and is about to lock.
const mark = "weir-port-"

// Needs says whether an owner still needs a port while the process that claimed it is gone.
type Needs func(owner string, port int) bool

// Claim keeps a port from every other process that asks this way, until ours ends: between the choice of a port and the
// moment its server listens, somebody else could take it, and would then answer the first one's questions. It is false where
// the port is kept by another, or by an earlier call. owner, unless empty, is written down beside it; of what an earlier process
// wrote, needs says whether that owner needs the port still; nil: none does. Where the mark cannot be made, the port is taken
// as it is.
func Claim(port int, owner string, needs Needs) bool {
	defer lockMarks()()
	// A bare descriptor: it is meant to stay open, and must not be closed by a finaliser.
	fd, err := syscall.Open(filepath.Join(os.TempDir(), mark+strconv.Itoa(port)), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return true
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	if before := read(fd); needs != nil && before != "" && before != owner && needs(before, port) {
		_ = syscall.Close(fd)
		return false
	}
	if syscall.Ftruncate(fd, 0) == nil {
		_, _ = syscall.Pwrite(fd, []byte(owner), 0) // without it the port is free when we end
	}
	return true
}

// Tidy removes the marks that keep no port from anybody any more: their process has ended, and they have no owner, or one
// that needs the port no more; nil: it is not asked, and its marks stay. What cannot be read or removed, as another user's, stays.
func Tidy(needs Needs) {
	defer lockMarks()()
	all, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, file := range all {
		number, ok := strings.CutPrefix(file.Name(), mark)
		port, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		path := filepath.Join(os.TempDir(), file.Name())
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if owner := read(fd); owner == "" || needs != nil && !needs(owner, port) {
				_ = os.Remove(path)
			}
		}
		_ = syscall.Close(fd)
	}
}

// lockMarks waits for the lock that is held for the moments in which marks are looked at: one of each user, since nobody can
// write to another's marks. Where it cannot be had, it is done without.
func lockMarks() (unlock func()) {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("weir-ports-%d.lock", os.Getuid()))
	fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return func() {}
	}
	for errors.Is(syscall.Flock(fd, syscall.LOCK_EX), syscall.EINTR) { // a signal came first
	}
	return func() { _ = syscall.Close(fd) }
}

// read is the text of a mark: a path.
func read(fd int) string {
	text := make([]byte, 4096)
	n, _ := syscall.Pread(fd, text, 0)
	return strings.TrimSpace(string(text[:max(n, 0)]))
}
