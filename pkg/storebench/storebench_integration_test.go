//go:build integration

package storebench

import (
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/testkit"
)

// The measurement measures: every figure is there and positive. What they must be is `make bench-admission`'s matter.
func TestFigures(t *testing.T) {
	// A machine that stands still for the second that a store gives Redis is no matter of the figures.
	figures, err := Figures(t.Context(), testkit.Redis(t)+"?read_timeout=1m", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"redis_time_us", "redis_time_together_us", "flat_10_to_50000", "settle_time_us", "vs_trivial_evalsha", "vs_window_50000", "batch_per_s"}
	for i, f := range figures {
		t.Logf("%+v", f)
		if f.Name != want[i] || f.Ours <= 0 || f.Reference <= 0 || f.Ratio <= 0 {
			t.Errorf("figure %d: %+v", i, f)
		}
	}
	if len(figures) != len(want) {
		t.Errorf("%d figures, want %d", len(figures), len(want))
	}
}
