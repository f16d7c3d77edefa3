package part

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func spawn(t *testing.T, script string) *Part {
	t.Helper()
	p, err := Spawn(Command{Kind: "script", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// started waits for the file that a script makes when it is under way.
func started(t *testing.T, p *Part, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitReady(ctx, func(context.Context) error { _, err := os.Stat(file); return err }); err != nil {
		t.Fatal(err)
	}
}

func TestAHungPartIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up")
	p := spawn(t, `trap "" TERM; : > `+file+`; while :; do sleep 1; done`)
	started(t, p, file)
	start := time.Now()
	if err := p.Stop(200 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("it had %v to end by itself", took)
	}
	if p.Alive() {
		t.Error("it still runs")
	}
}

// readBack is a part in another process, which has its JSON form alone.
func readBack(t *testing.T, state []byte) *Part {
	t.Helper()
	var p Part
	if err := json.Unmarshal(state, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestTheSameProcessIsFoundOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up")
	p := spawn(t, ": > "+file+"; exec sleep 600")
	started(t, p, file)
	state, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again := readBack(t, state)
	if !again.Alive() {
		t.Fatal("the process is not found again")
	}
	other := *again
	other.Start++ // as if the pid had been given to another process
	if other.Alive() {
		t.Error("another process counts as ours")
	}
	if err := other.Stop(0); err != nil || !again.Alive() {
		t.Errorf("it was stopped in place of another process: %v", err)
	}
	if err := again.Stop(0); err != nil {
		t.Fatal(err)
	}
	if readBack(t, state).Alive() {
		t.Error("found after its end")
	}
	if err := p.Stop(0); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestAnEarlyEndIsReportedWithItsLog(t *testing.T) {
	p := spawn(t, "echo the port is taken; exit 1")
	_, err := p.Started(context.Background(), func(context.Context) error { return errors.New("no") })
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("got %v", err)
	}
}

// TestPartsHoldNoPipeOfTheCaller runs this test again as a program that has a pipe on descriptor 3 and starts a part.
func TestPartsHoldNoPipeOfTheCaller(t *testing.T) {
	if log := os.Getenv("WEIR_TEST_SPAWN"); log != "" {
		p, err := Spawn(Command{Kind: "script", Path: "/bin/sleep", Args: []string{"600"}, LogFile: log})
		if err != nil {
			t.Fatal(err)
		}
		state, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(log+".json", state, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	log := filepath.Join(t.TempDir(), "log")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPartsHoldNoPipeOfTheCaller$")
	cmd.Env = append(os.Environ(), "WEIR_TEST_SPAWN="+log)
	cmd.ExtraFiles = []*os.File{w}
	if out, err := cmd.CombinedOutput(); err != nil { // returns only when nobody holds its output any more
		t.Fatalf("%v: %s", err, out)
	}
	state, err := os.ReadFile(log + ".json")
	if err != nil {
		t.Fatal(err)
	}
	p := readBack(t, state)
	if !p.Alive() {
		t.Fatal("the part did not outlive its starter")
	}
	t.Cleanup(func() { _ = p.Kill() })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(r); ended <- err }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the part holds the caller's pipe")
	}
	if !p.Alive() {
		t.Error("the part ended")
	}
}

func TestTheFolderHasOneUser(t *testing.T) {
	path := LockOf(filepath.Join(t.TempDir(), "data"))
	lock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d (", os.Getpid())) {
		t.Errorf("two users of one folder, or not named: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
