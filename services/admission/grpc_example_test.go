//go:build integration

package admission

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Goal: the Go example compiles and does what it says: a success, an error at $0, a cut stream, a wait, and a quota that is
// not retried.
func TestGoExample(t *testing.T) {
	k := contract()
	k.Limits.Concurrency, k.Ceilings = 1, tenant.Ceilings{Minute: dollar / 10, Day: dollar / 10, Month: dollar / 20}
	w := newWorld(t, map[string]tenant.Contract{"acme": k})
	r := w.start(withGRPC)
	program := filepath.Join(t.TempDir(), "example")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../docs/examples/go/reserve_settle.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "WEIR_GRPC="+r.svc.GRPCAddress(), "WEIR_KEY="+w.keys["acme"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ok settled SUCCESS", "error settled FAILED 0", "cut settled PARTIAL", "estimated", "waiting rate_limited concurrency", "waited settled SUCCESS", "quota "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Count(string(out), "quota") != 1 {
		t.Errorf("the quota was retried:\n%s", out)
	}
}
