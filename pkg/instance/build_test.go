package instance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// program puts a program into a folder: sleep, with a few bytes more at its end that tell builds apart.
func program(t *testing.T, path, build string) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path) // as a build does: a file that runs cannot be written to
	if err := os.WriteFile(path, append(b, build...), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestRunsKnowsAnotherBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admission")
	program(t, path, "one")
	p, err := part.Spawn(part.Command{Kind: "admission", Path: path, Args: []string{"600"}, LogFile: path + ".log"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	for _, c := range []struct {
		name string
		do   func()
		want bool
	}{
		{"as it was started", func() {}, true},
		{"built anew, to the same bytes", func() { program(t, path, "one") }, true},
		{"another of the same size", func() { program(t, path, "two") }, false},
		{"another", func() { program(t, path, "three") }, false},
		{"none", func() { _ = os.Remove(path) }, false},
	} {
		c.do()
		if got, err := runs(p.PID, path); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	if _, err := runs(1<<30, path); err == nil {
		t.Error("no such process, and no error")
	}
}

// running is an instance of which the services run, as programs of one build in bin.
func running(t *testing.T, c Config) State {
	t.Helper()
	if err := os.MkdirAll(string(c.Dir)+"/log", 0o700); err != nil {
		t.Fatal(err)
	}
	s := parts("postgres://u:p@127.0.0.1:3/d")
	for _, name := range Programs() {
		path := filepath.Join(c.Bin, name)
		program(t, path, "old")
		p, err := part.Spawn(part.Command{Kind: name, Path: path, Args: []string{"600"}, LogFile: c.Dir.Log(name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill() })
		v := Service{Name: name, Program: name, Part: *p, Settings: settings(c.Dir.serviceCommand(c.Bin, name, name, "", s))}
		if v.Address = "http://127.0.0.1:0"; name == "admission" {
			v.GRPC = "127.0.0.1:0"
		}
		s.Services = append(s.Services, v)
	}
	return s
}

// Goal: a service that was killed just before, and was still seen to run, is started again. Method: one is killed while `up` waits
// until all are ready; what is started in its stead ends at once, which is no reason to go on.
func TestUpServicesStartsAgainWhatEnded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := Config{Dir: Dir(t.TempDir()), Bin: t.TempDir()}
	s := running(t, c)
	breaker := s.Services[0]
	var said []string
	c.Say = func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
		if len(said) == 1 { // how many are ready
			if err := breaker.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	err := c.runServices(t.Context(), &s)
	var e ended
	if !errors.As(err, &e) || e.Name != "breaker" || e.PID == breaker.PID || !slices.Contains(said, "breaker ended meanwhile; starting it again") {
		t.Errorf("%v, said %q", err, said)
	}
}

// A new build beside a running instance: its services are started anew, those of the same build are left alone.
func TestUpServicesRestartsAnotherBuild(t *testing.T) {
	bin := t.TempDir()
	var said []string
	c := Config{Dir: Dir(t.TempDir()), Bin: bin, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	s := running(t, c)
	t.Cleanup(func() {
		for _, v := range s.Services {
			_ = v.Kill()
		}
	})
	before := map[string]int{}
	for _, v := range s.Services {
		before[v.Name] = v.PID
	}
	program(t, filepath.Join(bin, "breaker"), "new")
	if err := c.upServices(&s); err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Services {
		if restarted := v.PID != before[v.Name]; restarted != (v.Name == "breaker") {
			t.Errorf("%s: restarted %v", v.Name, restarted)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "restarting breaker: it runs another build") {
		t.Errorf("said %q", said)
	}
}

// Goal: an upgrade leaves services their ports, also those that another instance remembers for one of its own that is dead.
func TestUpgradeKeepsPorts(t *testing.T) {
	var ports []int // claimed, so that no other test takes one
	for range len(Programs()) + 1 {
		port, err := part.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	marks := t.TempDir()
	t.Setenv("TMPDIR", marks) // others of the test's own
	bin := t.TempDir()
	c := Config{Dir: Dir(t.TempDir()), Bin: bin, Say: func(string, ...any) {}}
	if err := os.MkdirAll(string(c.Dir)+"/log", 0o700); err != nil {
		t.Fatal(err)
	}
	port := func() int {
		next := ports[0]
		ports = ports[1:]
		return next
	}
	gone := func(port int) part.Part {
		return part.Part{PID: noPID, Start: 1, Address: fmt.Sprintf("http://127.0.0.1:%d", port)}
	}
	s, other := parts("postgres://u:p@127.0.0.1:3/d"), State{Parts: []Part{{"redis", sleeper(t, "redis-server", "redis://127.0.0.1:1/0")}}}
	t.Cleanup(func() {
		for _, v := range s.Services {
			_ = v.Kill()
		}
	})
	want := map[string]string{}
	for _, name := range Programs() {
		path := filepath.Join(bin, name)
		program(t, path, "old")
		at := port()
		p, err := part.Spawn(part.Command{Kind: name, Path: path, Args: []string{"600"}, LogFile: c.Dir.Log(name), Address: fmt.Sprintf("http://127.0.0.1:%d", at)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill() })
		v := Service{Name: name, Program: name, Part: *p}
		other.Services = append(other.Services, Service{Name: name, Program: name, Part: gone(at)})
		if name == "admission" {
			grpc := port()
			v.GRPC = fmt.Sprintf("127.0.0.1:%d", grpc)
			other.Services = append(other.Services, Service{Name: "admission-2", Program: name, Part: gone(grpc)})
		}
		s.Services = append(s.Services, v)
		want[name] = v.Address + " " + v.GRPC
		program(t, path, "new")
	}
	theirs := save(t, other)
	for _, v := range other.Services {
		if err := os.WriteFile(filepath.Join(marks, fmt.Sprint("weir-port-", lastPort(v.Address, 0))), []byte(theirs), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]int{}
	for _, v := range s.Services {
		before[v.Name] = v.PID
	}
	if err := c.upServices(&s); err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Services {
		if got := v.Address + " " + v.GRPC; got != want[v.Name] || v.PID == before[v.Name] {
			t.Errorf("%s: at %s, was at %s; restarted %v", v.Name, got, want[v.Name], v.PID != before[v.Name])
		}
	}
}

// Goal: an upgrade never has two builds of one program side by side: what the new one writes, the old one need not know.
// Method: the new build writes down which of the old processes it finds.
func TestUpgradeStopsAllCopiesFirst(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	bin := t.TempDir()
	c := Config{Dir: Dir(t.TempDir()), Bin: bin, Say: func(string, ...any) {}}
	if err := os.MkdirAll(string(c.Dir)+"/log", 0o700); err != nil {
		t.Fatal(err)
	}
	s := parts("postgres://u:p@127.0.0.1:3/d")
	t.Cleanup(func() {
		for _, v := range s.Services {
			_ = v.Kill()
		}
	})
	found := filepath.Join(bin, "found")
	script := "#!/bin/sh\nn=0\n"
	for i := range 3 {
		name := fmt.Sprint("admission-", i+1)
		s.Services = append(s.Services, Service{Name: name, Program: "admission", GRPC: "127.0.0.1:0", Part: sleeper(t, "admission", "http://127.0.0.1:0")})
		script += fmt.Sprintf("[ -e /proc/%d/exe ] && n=$((n + 1))\n", s.Services[i].PID) // one that waits to be reaped has none
	}
	script += "echo $n >>" + found + "\nexec sleep 600\n"
	for _, name := range Programs() {
		program(t, filepath.Join(bin, name), "any")
	}
	if err := os.WriteFile(filepath.Join(bin, "admission"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.upServices(&s); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0\n", 3)
	deadline := time.After(time.Minute)
	for got := ""; strings.Count(got, "\n") < strings.Count(want, "\n"); {
		select {
		case <-deadline:
			t.Fatalf("found %q, want %q", got, want)
		case <-time.After(10 * time.Millisecond):
		}
		text, _ := os.ReadFile(found) // it is not there at first
		if got = string(text); !strings.HasPrefix(want, got) {
			t.Fatalf("found %q, want %q", got, want)
		}
	}
}
