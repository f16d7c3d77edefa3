package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Golden compares a text with a file, or writes the file where update says so, which a test takes from a flag -update of its own.
func Golden(t testing.TB, update bool, path, got string) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update if this is meant:\n%s", path, got)
	}
}
