package instance

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Goal: what is started may open as many files as the hard limit allows, whatever the soft one is, and who has a low hard limit is
// told. Method: this test runs itself again in a shell with such limits, and starts a shell there that says what it was given.
func TestRaiseFiles(t *testing.T) {
	if os.Getenv("WEIR_TEST_FILES") != "" {
		if err := raiseFiles(func(format string, args ...any) { fmt.Printf("said: "+format+"\n", args...) }); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "ulimit -Sn").Output()
		fmt.Printf("given: %s, %v\n", strings.TrimSpace(string(out)), err)
		return
	}
	for limits, want := range map[string]struct {
		given string
		warns bool
	}{
		"ulimit -Sn 256; ulimit -Hn 5000": {"5000", false},
		"ulimit -Sn 256; ulimit -Hn 300":  {"300", true},
	} {
		cmd := exec.Command("sh", "-c", limits+`; exec "$0" -test.run='^TestRaiseFiles$'`, os.Args[0])
		cmd.Env = append(os.Environ(), "WEIR_TEST_FILES=1")
		out, err := cmd.CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "given: "+want.given+", <nil>") || strings.Contains(text, "said: ") != want.warns {
			t.Errorf("%s: %v\n%s", limits, err, out)
		}
	}
}
