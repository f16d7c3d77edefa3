// Package rig runs one Weir through its own command line, as a person would, and reads its books as finance would.
//
// It owns: starting and stopping by `weir up` and `weir down`, the commands between, the finance user's SELECT, and
// producing to the usage topic. It does not own what is played (packages play, demo) nor what is expected (oracle).
//
// Invariants: everything of an instance lies below Dir; nothing is wiped that this package did not mark as its own.
package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Rig is one instance: the programs in Bin (weir and the services), its data in Dir. Say gets what `weir up` tells.
type Rig struct {
	Bin, Dir string
	Say      io.Writer
	env      map[string]string
}

// marker says that a folder was made by Wipe, and may be wiped again.
const marker = ".weir-loadtest"

// CommandError is a weir command that did not exit with 0.
type CommandError struct {
	Args   []string
	Code   int
	Stdout string
	Stderr string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("weir %s: exit %d: %s%s", strings.Join(e.Args, " "), e.Code, e.Stdout, e.Stderr)
}

// Wipe stops what runs in Dir and empties it. A folder that is not empty and was not made by Wipe is an error.
func (r *Rig) Wipe(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(r.Dir, marker))
	entries, readErr := os.ReadDir(r.Dir)
	switch {
	case errors.Is(readErr, fs.ErrNotExist):
	case readErr != nil:
		return fmt.Errorf("wipe: %w", readErr)
	case err != nil && len(entries) > 0:
		return fmt.Errorf("wipe: %s is not empty and not from an earlier run: choose another folder", r.Dir)
	}
	if err := r.Down(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(r.Dir); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, marker), []byte("wiped by every run\n"), 0o644); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	return nil
}

// Up starts what does not run; args are flags of `weir up`.
func (r *Rig) Up(ctx context.Context, args ...string) error {
	cmd := r.command(ctx, append([]string{"up"}, args...))
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = r.Say, &stderr
	if r.Say != nil {
		cmd.Stderr = io.MultiWriter(r.Say, &stderr)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("weir up: %w\n%s", err, stderr.String())
	}
	r.env = nil
	return r.JSON(ctx, &r.env, "env")
}

// Down stops what runs in Dir; nothing there is no error.
func (r *Rig) Down(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.Dir, "instance.json")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := r.Weir(ctx, "down")
	return err
}

// command is weir with --dir.
func (r *Rig) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.Bin, "weir"), append(args, "--dir", r.Dir)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the terminal's foreground group: Ctrl-C is the caller's to handle
	return cmd
}

// Weir runs one command and returns its standard output; another exit code than 0 is a *CommandError.
func (r *Rig) Weir(ctx context.Context, args ...string) (string, error) {
	cmd := r.command(ctx, args)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.String(), &CommandError{args, exit.ExitCode(), stdout.String(), stderr.String()}
	}
	if err != nil {
		return "", fmt.Errorf("weir %s: %w", args[0], err)
	}
	return stdout.String(), nil
}

// JSON runs one command with --json and decodes its answer.
func (r *Rig) JSON(ctx context.Context, into any, args ...string) error {
	out, err := r.Weir(ctx, append(args, "--json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("weir %s: answer %q: %w", args[0], out, err)
	}
	return nil
}

// Env is a value of `weir env`, "" if it has none.
func (r *Rig) Env(name string) string { return r.env[name] }

// Environ is the caller's environment with the values of `weir env`, for programs that are started beside.
func (r *Rig) Environ() []string {
	all := os.Environ()
	for name, value := range r.env {
		all = append(all, name+"="+value)
	}
	return all
}

// Key makes an API key for a tenant.
func (r *Rig) Key(ctx context.Context, tenant string) (string, error) {
	var answer struct{ Key string }
	if err := r.JSON(ctx, &answer, "keys", "create", "--tenant", tenant); err != nil {
		return "", err
	}
	return answer.Key, nil
}

// Process is one entry of `weir status`, as far as tests ask for it. PID is 0 where it does not run.
type Process struct {
	Name, Address string
	PID           int
}

// Signal sends a signal to the process; to one that does not run it is an error, and never goes to anybody else.
func (p Process) Signal(s syscall.Signal) error {
	if p.PID <= 0 {
		return fmt.Errorf("%s to %s: it does not run", s, p.Name)
	}
	if err := syscall.Kill(p.PID, s); err != nil {
		return fmt.Errorf("%s to %s: %w", s, p.Name, err)
	}
	return nil
}

// Status is every part and service.
type Status struct{ Services, Parts []Process }

// Status asks `weir status`; that something does not run is no error.
func (r *Rig) Status(ctx context.Context) (s Status, err error) {
	err = r.JSON(ctx, &s, "status")
	var no *CommandError
	if errors.As(err, &no) && no.Code == 1 {
		err = json.Unmarshal([]byte(no.Stdout), &s)
	}
	return s, err
}

// Find is the part or the service process of that name, e.g. "redis" or "admission-2".
func (s Status) Find(name string) (Process, error) {
	for _, p := range slices.Concat(s.Parts, s.Services) {
		if p.Name == name {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("weir status has no %q", name)
}
