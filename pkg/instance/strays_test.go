package instance

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// stray is a process that has the lock of a file and that nobody remembers, as after a `weir up` that was killed.
func stray(t *testing.T, file string) *part.Part {
	t.Helper()
	lock, err := part.Lock(file)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	return locked(t, lock)
}

func locked(t *testing.T, lock *os.File) *part.Part {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	p, err := part.Spawn(part.Command{Kind: "sleep", Path: sleep, Args: []string{"300"}, LogFile: t.TempDir() + "/log", Lock: lock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// Goal: `down`, and `up` before it starts anything, end what was started in this folder and never recorded, and nothing else: not
// what only has the lock's file open, as a backup, and not what is recorded and runs.
func TestStraysAreEnded(t *testing.T) {
	ways := map[string]func(Dir, State) error{
		"down": func(d Dir, _ State) error { return d.Down(func(string, ...any) {}) },
		"up":   func(d Dir, s State) error { return Config{Dir: d, Say: func(string, ...any) {}}.endStrays(s) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			d := save(t, State{})
			redis, breaker := stray(t, part.LockOf(d.Data("redis"))), stray(t, d.lockOf("breaker"))
			reads, err := os.Open(part.LockOf(d.Data("redis")))
			if err != nil {
				t.Fatal(err)
			}
			defer reads.Close()
			backup := locked(t, reads)
			if err := end(d, State{}); err != nil {
				t.Fatal(err)
			}
			if redis.Alive() || breaker.Alive() || !backup.Alive() {
				t.Errorf("redis runs: %v, breaker: %v, the backup: %v", redis.Alive(), breaker.Alive(), backup.Alive())
			}
		})
	}
	d := Dir(t.TempDir())
	kept := stray(t, part.LockOf(d.Data("redis")))
	s := State{Parts: []Part{{"redis", *kept}}}
	if err := ways["up"](d, s); err != nil || !kept.Alive() {
		t.Errorf("a recorded part: %v, runs %v", err, kept.Alive())
	}
}

// Goal: on a full disk nothing stays behind that instance.json does not name. Method: a folder bars the file from before or from
// while a part starts.
func TestWhatCannotBeSavedIsEnded(t *testing.T) {
	for name, barred := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			d := Dir(t.TempDir())
			bar := func() {
				if err := os.Mkdir(d.file("instance.json.tmp"), 0o700); err != nil {
					t.Error(err)
				}
			}
			if barred {
				bar()
			}
			var started *part.Part
			run := func(int) (*part.Part, error) {
				p := sleeper(t, part.KindRedis, "redis://127.0.0.1:1/0")
				started = &p
				bar()
				return &p, nil
			}
			var s State
			err := Config{Dir: d, Say: func(string, ...any) {}}.startAll(&s, map[string]start{"redis": {1, run}})
			if err == nil || !strings.Contains(err.Error(), "save instance") || len(s.Parts) != 0 {
				t.Errorf("%v, parts %v", err, s.Parts)
			}
			if barred != (started == nil) || started != nil && started.Alive() {
				t.Errorf("it was started: %v, and runs still", started)
			}
		})
	}
}

// Goal: the same of a service.
func TestAServiceThatCannotBeSavedIsEnded(t *testing.T) {
	d := Dir(t.TempDir())
	p := sleeper(t, "breaker", "http://127.0.0.1:1")
	if err := os.Mkdir(d.file("instance.json.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.saveStarted(State{}, p); err == nil || p.Alive() {
		t.Errorf("%v, runs %v", err, p.Alive())
	}
}
