//go:build integration

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest/readme"
)

// makeRun is the block that stays up until it is interrupted.
const makeRun = "make run"

// TestReadme runs the README's commands verbatim, in order, in a fresh clone: `make run` in the background, interrupted
// after its bill, then all others in one shell.
func TestReadme(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "weir")
	run(t, 0, root, os.Environ(), "git", "clone", "--quiet", "--no-hardlinks", root, clone)
	raw, err := os.ReadFile(filepath.Join(clone, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := readme.Blocks(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	env := os.Environ()
	downAtEnd(t, filepath.Join(clone, "bin"), filepath.Join(clone, ".weir"))
	downAtEnd(t, filepath.Join(clone, "bin"), filepath.Join(clone, ".weir", "demo"))
	script := &bytes.Buffer{}
	ran := false
	for _, b := range blocks {
		switch {
		case b.NotRun != "":
			t.Logf("line %d is not run: %s", b.Line, b.NotRun)
		case strings.TrimSpace(b.Text) == makeRun:
			runUntilBill(t, clone, env, b.Text)
			ran = true
		default:
			fmt.Fprintf(script, "echo '== README.md:%d'\n%s", b.Line, b.Text)
		}
	}
	if !ran || script.Len() == 0 {
		t.Fatalf("the README shows `make run`: %t; it has %d bytes of other commands", ran, script.Len())
	}
	t.Logf("%s", run(t, 0, clone, env, "bash", "-euo", "pipefail", "-c", script.String()))
}

// downAtEnd stops what a test that failed leaves running in dir.
func downAtEnd(t *testing.T, bin, dir string) {
	t.Cleanup(func() { _ = exec.Command(filepath.Join(bin, "weir"), "down", "--dir", dir).Run() }) // exit 1 where there is none
}

// runUntilBill runs a block in a group of its own, as a terminal would, and presses Ctrl-C when the audit has spoken.
func runUntilBill(t *testing.T, dir string, env []string, block string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	cmd.Dir, cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = dir, env, &syscall.SysProcAttr{Setpgid: true}, time.Minute
	interrupt := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.Cancel = interrupt
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	audited, stays := false, false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		audited = audited || lines.Text() == "audit: ok"
		if strings.HasPrefix(lines.Text(), "It stays up until Ctrl-C") {
			stays = true
			if err := interrupt(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // the interrupt is make's exit code
	if !audited || !stays || !strings.Contains(seen.String(), "trace calls: 28185, raw $144.40022\n") {
		t.Fatalf("%s: audit ok: %t, stays up: %t\n%s%s", strings.TrimSpace(block), audited, stays, seen.String(), stderr.String())
	}
	demo := exec.Command(filepath.Join(dir, "bin", "weir"), "status", "--dir", ".weir/demo", "--json")
	demo.Dir, demo.Env = dir, env
	status, err := demo.Output()
	if err == nil || strings.Contains(string(status), `"running"`) || strings.Contains(string(status), `"ready"`) {
		t.Errorf("after Ctrl-C something still runs: %v\n%s", err, status)
	}
}

// TestDemoOnApacheKafka is `make run KAFKA=apache ONCE=1` without the build: exit 0 only if the bill is the oracle's and
// the audit is clean.
func TestDemoOnApacheKafka(t *testing.T) {
	dir, programs := t.TempDir(), t.TempDir() // not beside the programs: other packages' tests copy those meanwhile
	downAtEnd(t, bin, filepath.Join(dir, "demo"))
	if err := os.Symlink(filepath.Join(bin, "weir"), filepath.Join(programs, "weir")); err != nil {
		t.Fatal(err)
	}
	run(t, 0, root, os.Environ(), "go", "build", "-buildvcs=false", "-o", filepath.Join(programs, "weir-demo"), "./loadtest/cmd/weir-demo")
	out := run(t, 0, dir, os.Environ(), filepath.Join(programs, "weir-demo"), "--once", "--kafka", "apache", "--dir", filepath.Join(dir, "demo"))
	if !strings.HasSuffix(out, "audit: ok\n") || !strings.Contains(out, "trace calls: 28185, raw $144.40022\n") {
		t.Fatalf("the demo:\n%s", out)
	}
}
