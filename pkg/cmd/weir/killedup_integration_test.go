//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/pkg/embedded/part"
)

// TestKilledUp kills `weir up` while it starts the parts for the first time, before it can have recorded them. The next one ends
// what is left and starts all of them, each once on its data, and so does `down` after another kill.
func TestKilledUp(t *testing.T) {
	here(t)
	p := newInstance(t)
	locks := map[string]string{}
	for _, name := range []string{"kafka", "redis", "postgres", "clickhouse"} {
		locks[name] = part.LockOf(filepath.Join(p.dir, "data", name))
	}
	t.Cleanup(func() {
		for _, file := range locks {
			if _, err := part.EndHolders(file, 9, 0); err != nil {
				t.Error(err)
			}
		}
	})
	killed := func() (left map[string][]*part.Part) {
		t.Helper()
		up := exec.Command(filepath.Join(os.Getenv(binEnv), "weir"), "up", "--dir", p.dir)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		p.wait("a process of each part", func() bool {
			left = map[string][]*part.Part{}
			for name, file := range locks {
				for _, h := range part.Holders(file) {
					if h.PID != up.Process.Pid {
						left[name] = append(left[name], h)
					}
				}
			}
			return len(left) == len(locks)
		})
		if err := up.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = up.Wait() // it was killed
		return left
	}
	left := killed()
	p.must("up")
	for name, all := range left {
		for _, h := range all {
			if p.pids()[name] != h.PID && h.Alive() {
				t.Errorf("%s: pid %d (%s) still runs", name, h.PID, h.Kind)
			}
		}
	}
	for _, x := range p.status().Parts {
		for _, h := range part.Holders(locks[x.Name]) {
			if x.Name != "postgres" && h.PID != *x.PID {
				t.Errorf("%s: pid %d (%s) is on its data beside %d", x.Name, h.PID, h.Kind, *x.PID)
			}
		}
	}
	p.must("down")
	killed()
	p.must("down")
	for name, file := range locks {
		if all := part.Holders(file); len(all) > 0 {
			t.Errorf("%s: after down pid %d (%s) still runs", name, all[0].PID, all[0].Kind)
		}
	}
}
