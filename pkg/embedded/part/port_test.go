package part

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A free port is below those that clients are lent, and given once.
func TestFreePort(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	seen := map[int]bool{}
	for range 50 {
		port, err := FreePort()
		if err != nil || port < firstFree || port >= LentPorts || seen[port] {
			t.Fatalf("%d, %v", port, err)
		}
		seen[port] = true
		if Claim(port, "", nil) {
			t.Errorf("%d is claimed twice", port)
		}
	}
}

// A port is kept by the process that claimed it, and after that process by an owner that still needs it.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	// What a process that has ended left behind.
	if err := os.WriteFile(filepath.Join(dir, "weir-port-1"), []byte("/a"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := ""
	needs := func(yes bool) Needs { return func(owner string, _ int) bool { asked = owner; return yes } }
	if Claim(1, "/b", needs(true)) || asked != "/a" {
		t.Errorf("the port of %q was given away", asked)
	}
	if !Claim(1, "/b", needs(false)) {
		t.Error("a port that its owner does not need is not given")
	}
	if Claim(1, "/a", needs(false)) {
		t.Error("given again while the process lives")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "weir-port-1")); err != nil || string(text) != "/b" {
		t.Errorf("the mark says %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "weir-port-2"), []byte("/a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !Claim(2, "/a", needs(true)) {
		t.Error("its own port is not given to an owner")
	}
	if got := fmt.Sprint(Unused(-1)); got == "0 <nil>" {
		t.Error("a port that is none is unused")
	}
}

// Goal: marks go when they keep a port from nobody any more, and no other.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	left := func() string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "weir-port-*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			names[i] = strings.TrimPrefix(filepath.Base(names[i]), "weir-port-")
		}
		return strings.Join(names, " ")
	}
	for name, owner := range map[string]string{"1": "", "2": "/down", "3": "/up", "x": ""} { // 3 is what /up has, 4 what it had
		if err := os.WriteFile(filepath.Join(dir, "weir-port-"+name), []byte(owner), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "weir-port-4"), []byte("/up"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !Claim(5, "/down", nil) || !Claim(6, "", nil) {
		t.Fatal("not claimed")
	}
	Tidy(nil)
	if got := left(); got != "2 3 4 5 6 x" {
		t.Errorf("without asking owners: %s", got)
	}
	Tidy(func(owner string, port int) bool { return owner == "/up" && port == 3 })
	if got := left(); got != "3 5 6 x" {
		t.Errorf("left: %s", got)
	}
}

// Goal: however claims and the removal of marks meet, a port has one owner, and its mark says so. Method: many at once want the
// same ports, of which each has a mark that may go.
func TestTidyAgainstClaims(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	const ports, claimants = 150, 6
	for port := range ports {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("weir-port-", port)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var won [ports]atomic.Int32
	var all sync.WaitGroup
	for range claimants {
		all.Go(func() {
			for port := range ports {
				if port%10 == 0 {
					Tidy(nil)
				}
				if Claim(port, "", nil) {
					won[port].Add(1)
				}
			}
		})
	}
	all.Wait()
	for port := range ports {
		_, err := os.Stat(filepath.Join(dir, fmt.Sprint("weir-port-", port)))
		if n := won[port].Load(); n != 1 || err != nil {
			t.Errorf("port %d: %d owners, %v", port, n, err)
		}
	}
}
