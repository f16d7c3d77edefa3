//go:build integration

package pgstore_test

import (
	"testing"
)

// Goal: an epoch's layout is the one that it was raised with, it never falls, and a build from before there were layouts, which
// would serve from any, cannot read the row.
func TestLayoutOfAnEpoch(t *testing.T) {
	f := open(t)
	raise := func(lost, next int64, layout int, want bool) {
		t.Helper()
		raised, err := f.RaiseEpoch(t.Context(), lost, next, layout, nil)
		f.must(err)
		if e := f.epochRow(); raised != want || want && e.Layout != layout {
			t.Errorf("raised %v, %+v", raised, e)
		}
	}
	if e := f.epochRow(); e.Layout != 1 {
		t.Errorf("the first: %+v", e)
	}
	raise(7, 8, 1, true)
	raise(8, 9, 3, true)
	raise(9, 10, 2, false)
	raise(9, 10, 3, true)
	if _, err := f.connect().Exec(t.Context(), "SELECT epoch, state = 'recovering', replication_ids FROM redis_epoch"); err == nil {
		t.Error("the row is read as before there were layouts")
	}
	conn := f.connect() // as such a build makes one
	_, err := conn.Exec(t.Context(), "DELETE FROM redis_epoch")
	f.must(err)
	_, err = conn.Exec(t.Context(), "INSERT INTO redis_epoch (epoch) VALUES (7)")
	f.must(err)
	if e := f.epochRow(); e.Layout != 0 {
		t.Errorf("without a number: %+v", e)
	}
}
