package part

import (
	"fmt"
	"os"
	"path/filepath"
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
	needs := func(yes bool) func(string) bool { return func(owner string) bool { asked = owner; return yes } }
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
