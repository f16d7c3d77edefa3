package pgstore

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// Goal: a call each minute has looked at every block after a day, whatever the table's size and the minute of the first.
func TestPruneParts(t *testing.T) {
	for _, blocks := range []int64{0, 1, 999, 1000, 1001, pruneParts - 1, 1_500_007, 13_000_000} {
		for _, start := range []int64{0, 1_796_083_199, -90_000} {
			var parts [pruneParts][2]int64
			for minute := range parts {
				parts[minute][0], parts[minute][1] = prunePart(blocks, time.Unix(start+60*int64(minute), 0))
			}
			slices.SortFunc(parts[:], func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
			looked := int64(0)
			for _, part := range parts {
				if part[0] > looked {
					t.Fatalf("%d blocks: nobody looks at block %d", blocks, looked)
				}
				looked = max(looked, part[1])
			}
			if looked < blocks {
				t.Fatalf("%d blocks: nobody looks at block %d", blocks, looked)
			}
			if from, to := prunePart(blocks, time.Unix(start, 0)); to-from < pruneBlocks {
				t.Errorf("%d blocks: only %d to %d are looked at", blocks, from, to)
			}
		}
	}
}
