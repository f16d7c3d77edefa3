package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// sharedServers are the servers that all tests of one test binary use. Nothing tells a package that its binary ends,
// so a reaper, a shell that reads from a pipe of ours, ends them when that pipe closes, however we ended.
type sharedServers struct {
	dir    string
	reaper *os.File
	// weirpart builds the part program and gives its path.
	weirpart func() (string, error)

	mu                   sync.Mutex
	postgres, clickhouse *part.Part
	migrated             bool // the template has its tables
	databases            int
}

// shared makes the binary's folder and its reaper at the first call.
func shared(t testing.TB) *sharedServers {
	t.Helper()
	s, err := newSharedServers()
	check(t, err)
	return s
}

// reaperScript reads pids, one a line, until the pipe closes; then it ends them and removes the folder. They are asked to end
// first: a Postgres that is killed leaves a segment of shared memory, of which a machine has 4,096.
const reaperScript = `pids=""; while read -r pid; do pids="$pids $pid"; done
[ -z "$pids" ] || kill -INT $pids
for pid in $pids; do for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $pid || break; sleep 0.5; done; kill -KILL $pid; done 2>/dev/null
sleep 0.2; rm -rf "$1"`

var newSharedServers = sync.OnceValues(func() (*sharedServers, error) {
	dir, err := os.MkdirTemp("", "weir-testkit-*")
	if err != nil {
		return nil, fmt.Errorf("shared folder: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "reaper", dir)
	cmd.Stdin, cmd.Dir = r, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt of the tests must not end it first
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	return &sharedServers{dir: dir, reaper: w, weirpart: sync.OnceValues(func() (string, error) { return buildWeirpart(dir) })}, nil
})

// keep hands a part to the reaper.
func (s *sharedServers) keep(p *part.Part) error {
	_, err := s.reaper.WriteString(strconv.Itoa(p.PID) + "\n")
	return err
}

// nextDatabase is a name that no other test of this binary has.
func (s *sharedServers) nextDatabase() string {
	s.databases++
	return fmt.Sprintf("test_%d", s.databases)
}
