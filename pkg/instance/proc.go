package instance

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

// spawn starts a program in a session of its own, with its output in a log file, so that it outlives the caller and
// holds none of its pipes.
func spawn(program string, args, env []string, logFile string) (*exec.Cmd, *Proc, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return nil, nil, fmt.Errorf("log folder: %w", err)
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("log file: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	start, err := startTime(cmd.Process.Pid)
	if err != nil {
		return nil, nil, err
	}
	return cmd, &Proc{PID: cmd.Process.Pid, Start: start}, nil
}

// startTime reads field 22 of /proc/<pid>/stat. The name in field 2 may hold anything, so counting begins after its
// closing parenthesis (proc(5)).
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive reports whether the very process that was remembered still runs.
func (p *Proc) Alive() bool {
	if p == nil {
		return false
	}
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// Signal sends a signal to the process if it is still the one remembered.
func (p *Proc) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, sig)
}

// stop ends a process: SIGTERM, then SIGKILL after the grace. A stopped (SIGSTOP) process is killed all the same.
func (p *Proc) stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}
	if p.waitGone(ctx, grace) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	if !p.waitGone(ctx, 5*time.Second) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

// waitGone polls, since a process that is not our child cannot be waited for.
func (p *Proc) waitGone(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-ctx.Done():
			return !p.Alive()
		case <-tick.C:
		}
	}
	return true
}
