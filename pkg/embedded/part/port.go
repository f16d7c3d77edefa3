package part

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LentPorts is where the ports begin that the system lends to outgoing connections (Linux: net.ipv4.ip_local_port_range).
// A server that listens there may find its port taken when it starts again: even a client that dials the absent server can
// be lent the very port that it dials, is then connected to itself, and bars it.
const LentPorts = 32768

// FreePort gives ports from here on.
const firstFree = 20000

// Unused returns the port itself, or the one that the system picks for 0, if it could be listened on.
func Unused(port int) (int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, fmt.Errorf("port %d: %w", port, err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("port %d: %w", port, err)
	}
	return port, nil
}

// FreePort is a port on 127.0.0.1 that nobody listens on, that is never lent, and that is claimed: its server may go away
// and come back as long as this process lives.
func FreePort() (int, error) {
	const tries = 200
	for range tries {
		port := firstFree + rand.N(LentPorts-firstFree)
		if _, err := Unused(port); err == nil && Claim(port, "", nil) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// Claim keeps a port from every other process that asks this way, until ours ends: between the choice of a port and the
// moment its server listens, somebody else could take it, and would then answer the first one's questions. It is false where
// the port is kept by another, or by an earlier call. owner, unless empty, is written down beside it; what an earlier process
// wrote is asked for first: theirs says whether that owner still needs the port while its process is gone. Where the mark
// cannot be made, the port is taken as it is.
func Claim(port int, owner string, theirs func(owner string) bool) bool {
	mark := filepath.Join(os.TempDir(), fmt.Sprintf("weir-port-%d", port))
	// A bare descriptor: it is meant to stay open, and must not be closed by a finaliser.
	fd, err := syscall.Open(mark, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return true
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	if before := read(fd); theirs != nil && before != "" && before != owner && theirs(before) {
		_ = syscall.Close(fd)
		return false
	}
	if syscall.Ftruncate(fd, 0) == nil {
		_, _ = syscall.Pwrite(fd, []byte(owner), 0) // without it the port is free when we end
	}
	return true
}

// read is the text of a mark: a path.
func read(fd int) string {
	text := make([]byte, 4096)
	n, _ := syscall.Pread(fd, text, 0)
	return strings.TrimSpace(string(text[:max(n, 0)]))
}
