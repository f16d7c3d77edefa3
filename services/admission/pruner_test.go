package admission

import (
	"context"
	"errors"
	"testing"
	"time"
)

// However many rows are old, all of them leave at one time; an error ends it.
func TestPruneAll(t *testing.T) {
	now, away := time.Unix(1_000_000_000, 0), errors.New("away")
	for name, c := range map[string]struct {
		old   int64
		fail  bool
		calls int
	}{
		"none": {0, false, 1}, "few": {7, false, 1}, "as many as a statement takes": {pruneRows, false, 2},
		"many": {12*pruneRows + 1, false, 13}, "Postgres away": {12 * pruneRows, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			left, calls := c.old, 0
			err := pruneAll(t.Context(), now, time.Hour, func(_ context.Context, reservations, executions time.Time, limit int) (int64, error) {
				if calls++; c.fail && calls == 3 {
					return 0, away
				}
				if !reservations.Equal(now.Add(-time.Hour)) || !executions.Equal(now.Add(-4*maxRootAge)) {
					t.Errorf("before %s and %s", reservations, executions)
				}
				removed := min(left, int64(limit))
				left -= removed
				return removed, nil
			})
			if calls != c.calls || (err != nil) != c.fail || (left > 0) != c.fail {
				t.Errorf("%d calls, %d left, %v", calls, left, err)
			}
		})
	}
}
