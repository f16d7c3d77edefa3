package citest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func failures(t *testing.T, printed string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "awk", "-f", "../../../.ci/failures.awk")
	cmd.Stdin = strings.NewReader(printed)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A test's own words are repeated, and the many lines of a log that it passed on are not.
func TestFailures(t *testing.T) {
	run, err := os.ReadFile("testdata/run.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/failed.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := failures(t, string(run)); got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// However much fails, the summary is short, and names the packages last.
func TestFailuresAreFew(t *testing.T) {
	got := failures(t, strings.Repeat("--- FAIL: TestX (0.1s)\n    x_test.go:1: no\nFAIL\nFAIL\tp\t0.1s\n", 200))
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) > 70 || lines[0] != "--- FAIL: TestX (0.1s)" || lines[len(lines)-1] != "FAIL\tp\t0.1s" || !strings.Contains(got, "... and 342 more lines") {
		t.Errorf("%d lines:\n%s", len(lines), got)
	}
	if got := failures(t, "ok  \tp\t0.1s\n"); got != "" {
		t.Errorf("where nothing failed: %s", got)
	}
}
