package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// Goal: the total of a branch must be in the window topic until nothing can come for it any more; one that is there later is
// compared all the same. Method: it is removed, or wrong, and the audit is made at several times.
func TestBranchTotals(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name        string
		late        time.Duration
		gone, wrong bool
		want        string
	}{
		{"there", 0, false, false, ""}, {"gone at once", 0, true, false, "nothing"}, {"gone on the last day", 17*day - time.Hour, true, false, "nothing"},
		{"gone by age", 18 * day, true, false, ""}, {"still there", 18 * day, false, false, ""}, {"there and wrong", 18 * day, false, true, "own nano-dollars"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := small(t, nil)
			for i, row := range w.windows {
				if row.Key.Scope != "EXECUTION_BRANCH" || row.Key.ScopeID != "b1" {
					continue
				}
				if c.wrong {
					row.OwnNanos++
					row.Version++
					w.add(windowRecord(w, row))
				}
				if c.gone {
					w.add(bus.NewRecord(topics.BudgetWindows, "acme", []byte(row.Key.String()), nil))
					w.windows = append(w.windows[:i], w.windows[i+1:]...)
				}
				break
			}
			conn := connect(t)
			w.play(conn)
			r, err := audit.Run(t.Context(), audit.Sources{Log: conn, Books: w, Budgets: w, Now: now().Add(c.late)})
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, d := range r.Differences {
				if strings.Contains(d.What, "EXECUTION_BRANCH b1") && strings.HasPrefix(d.Where, "windows") {
					found += d.String()
				}
			}
			if (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("want %q, found %q", c.want, found)
			}
		})
	}
}
