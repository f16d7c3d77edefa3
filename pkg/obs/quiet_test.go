package obs

import (
	"testing"
	"time"
)

// Goal: of each kind the first line passes, and then one every ten seconds, whatever other kinds do.
func TestQuiet(t *testing.T) {
	var q Quiet
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kind  string
		after time.Duration
		want  bool
	}{{"a", 0, true}, {"a", time.Second, false}, {"b", time.Second, true}, {"a", 10*time.Second - 1, false}, {"a", 10 * time.Second, true},
		{"b", 10 * time.Second, false}, {"a", 19 * time.Second, false}, {"b", 11 * time.Second, true}} {
		if got := q.Pass(c.kind, at.Add(c.after)); got != c.want {
			t.Errorf("%s after %s: %v", c.kind, c.after, got)
		}
	}
}
