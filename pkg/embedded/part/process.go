package part

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Command is what Spawn runs.
type Command struct {
	Kind    string
	Address string
	Path    string
	Args    []string
	Env     []string // added to the caller's environment
	Dir     string   // working directory; default /
	LogFile string
	Signal  syscall.Signal      // default SIGTERM
	User    *syscall.Credential // nil: the caller's
	Ambient []uintptr           // capabilities that User keeps
	Lock    *os.File            // a lock that the process keeps as long as it lives, see Lock; nil: none
}

// Spawn starts a process in its own session and returns without waiting for it to be ready.
func Spawn(c Command) (*Part, error) {
	if err := os.MkdirAll(filepath.Dir(c.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	defer log.Close()
	keepDescriptorsHere()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log // no Stdin: the null device
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.User, AmbientCaps: c.Ambient}
	if c.Lock != nil {
		cmd.ExtraFiles = []*os.File{c.Lock}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Kind, err)
	}
	p := &Part{Kind: c.Kind, Address: c.Address, PID: cmd.Process.Pid, Signal: c.Signal, LogFile: c.LogFile, ended: make(chan struct{})}
	if p.Signal == 0 {
		p.Signal = syscall.SIGTERM
	}
	// Not yet reaped, so its entry in /proc is there even if it ended at once.
	p.Start, _ = startTicks(p.PID)
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.ended)
	}()
	return p, nil
}

// keepDescriptorsHere marks every inherited descriptor close-on-exec. What our own starter left open (a pipe it waits
// on until all writers are gone) must not live on in a part.
func keepDescriptorsHere() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no /proc: no such platform has embedded parts
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// startTicks reads field 22 of /proc/PID/stat. Field 2 is a name that may hold spaces and brackets, so counting begins
// after the last closing bracket (proc(5)). A zombie counts as ended, unless threads of its own (field 20) are still on their
// way out: until then its ports are taken.
func startTicks(pid int) (ticks uint64, alive bool) {
	f := stat(pid)
	if len(f) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseUint(f[19], 10, 64)
	ended := f[0] == "X" || f[0] == "Z" && (f[17] == "0" || f[17] == "1")
	return ticks, err == nil && !ended
}

// stat is /proc/PID/stat from its third field on; nothing where there is no such process.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// Alive reports whether the very process that was remembered still runs.
func (p *Part) Alive() bool {
	ticks, alive := startTicks(p.PID)
	return alive && ticks == p.Start
}

// Runs is Alive for whoever goes on to rely on it: where the process was killed and is on its way out, it waits for its end.
func (p *Part) Runs() bool {
	if f := stat(p.PID); len(f) > 0 && f[0] == "Z" {
		p.waitGone(killWait)
	}
	return p.Alive()
}

// Kill ends the part at once, as a crash would, and waits until it is gone.
func (p *Part) Kill() error {
	children := childrenOf(p.PID)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.waitGone(killWait) {
		return fmt.Errorf("%s, pid %d, does not end", p.Kind, p.PID)
	}
	for _, c := range children {
		// A stopped child does not see that its parent went, and would bar the next start (Postgres' shared memory).
		_ = c.signal(syscall.SIGKILL)
	}
	return nil
}

// Stop asks the part to end, and kills it when it has not within grace (0: DefaultGrace). An ended part is no error.
func (p *Part) Stop(grace time.Duration) error {
	if grace <= 0 {
		grace = DefaultGrace
	}
	if err := p.signal(p.Signal); err != nil {
		return err
	}
	if p.waitGone(grace) {
		return nil
	}
	return p.Kill()
}

func (p *Part) signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s, pid %d: %w", p.Kind, p.PID, err)
	}
	return nil
}

// waitGone polls, as a process that is not our child cannot be waited for.
func (p *Part) waitGone(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-deadline.C:
			return !p.Alive()
		case <-tick.C:
		}
	}
	return true
}

// childrenOf lists the direct children of a process.
func childrenOf(pid int) []*Part {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var out []*Part
	for _, f := range strings.Fields(string(b)) {
		child, err := strconv.Atoi(f)
		if err != nil {
			continue
		}
		if ticks, alive := startTicks(child); alive {
			out = append(out, &Part{Kind: "child", PID: child, Start: ticks})
		}
	}
	return out
}

// WaitReady calls probe until it succeeds. It fails when ctx ends or the process does, with the end of its log.
func (p *Part) WaitReady(ctx context.Context, probe func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil && p.Alive() {
			return nil
		}
		if !p.Alive() {
			return fmt.Errorf("%s ended while starting; the end of %s:\n%s", p.Kind, p.LogFile, Tail(p.LogFile, 12))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.Kind, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// Started waits for readiness and stops the part when it does not come: nothing half-started stays behind.
func (p *Part) Started(ctx context.Context, probe func(context.Context) error) (*Part, error) {
	if err := p.WaitReady(ctx, probe); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// Tail is the end of a text file, for error messages; at most 64 KiB are read.
func Tail(file string, lines int) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	if info, err := f.Stat(); err == nil && info.Size() > int64(len(buf)) {
		_, _ = f.Seek(-int64(len(buf)), 2)
	}
	n, _ := f.Read(buf)
	all := strings.Split(strings.TrimRight(string(buf[:n]), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
