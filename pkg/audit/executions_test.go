package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
)

// Goal: counters of an execution that a recovery made without its limits are compared all the same; some must be there only
// while admission keeps them, and what came back after that says nothing of what was before.
func TestExecutionCounters(t *testing.T) {
	for _, c := range []struct {
		name   string
		late   time.Duration // how long after the last own entry the audit is
		change func(*audit.ExecutionCounters)
		want   string // a difference about the execution; "" = none
	}{
		{"known", 0, func(*audit.ExecutionCounters) {}, ""},
		{"without its limits", 0, func(x *audit.ExecutionCounters) { x.Known = false }, ""},
		{"without its limits, and wrong", 0, func(x *audit.ExecutionCounters) { x.Known, x.Own = false, x.Own+1 }, "own nano-dollars"},
		{"gone too early", 0, func(x *audit.ExecutionCounters) { *x = audit.ExecutionCounters{} }, "the journal has own entries"},
		{"gone by age", 31 * time.Minute, func(x *audit.ExecutionCounters) { *x = audit.ExecutionCounters{} }, ""},
		{"gone, and back with a late figure", 31 * time.Minute, func(x *audit.ExecutionCounters) { x.Known, x.Own, x.Held = false, 1, 0 }, ""},
		{"wrong long after", 31 * time.Minute, func(x *audit.ExecutionCounters) { x.Own++ }, "own nano-dollars"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := small(t, nil)
			x := w.roots["acme/x1"]
			c.change(&x)
			w.roots["acme/x1"] = x
			conn := connect(t)
			w.play(conn)
			r, err := audit.Run(t.Context(), audit.Sources{Log: conn, Books: w, Budgets: w, Now: now().Add(c.late)})
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, d := range r.Differences {
				if strings.Contains(d.What, "execution x1") {
					found += d.String()
				}
			}
			if (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("want %q, found %q", c.want, found)
			}
		})
	}
}
