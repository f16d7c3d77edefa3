package audit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
)

// Goal: rows of a build that did not know a column are told apart: how many, from when to when, and no difference.
func TestRowsOfEarlierBuilds(t *testing.T) {
	w := small(t, nil)
	first, last := time.Time{}, time.Time{}
	with := 0
	for i := range w.rows {
		row := &w.rows[i]
		if row.APIKey != "" || len(row.Branches) > 0 {
			with++
			if at := row.RecordedAt; first.IsZero() || at.Before(first) {
				first = at
			}
			if at := row.RecordedAt; at.After(last) {
				last = at
			}
		}
		row.APIKey, row.Branches, row.Layout = "", nil, 0
	}
	r := w.run()
	if !r.OK || len(r.Differences) != 0 || with == 0 || with == len(w.rows) || r.Older.Rows != int64(with) || !r.Older.From.Equal(first) || !r.Older.To.Equal(last) {
		t.Errorf("%d of %d rows have them, from %s to %s: %+v", with, len(w.rows), first, last, r)
	}
	if clean := small(t, nil).run(); clean.Older != (audit.OlderRows{}) {
		t.Errorf("%+v", clean.Older)
	}
}

// Goal: only a writer that did not know a column may leave it empty, and what it wrote all the same must be right.
func TestEmptyColumnsOfThisBuild(t *testing.T) {
	clean := small(t, nil)
	conn := connect(t)
	clean.play(conn)
	for name, change := range map[string]func(*audit.LedgerRow){
		"branches":   func(r *audit.LedgerRow) { r.Branches = nil },
		"api_key_id": func(r *audit.LedgerRow) { r.APIKey = "" },
		"branches, of which an earlier build has one": func(r *audit.LedgerRow) { r.Branches, r.Layout = r.Branches[:1], 0 },
		"agent_id, which every build knows":           func(r *audit.LedgerRow) { r.Agent, r.Layout = "", 0 },
	} {
		w := small(t, nil)
		change(&w.rows[slices.IndexFunc(w.rows, func(r audit.LedgerRow) bool { return len(r.Branches) == 2 && r.APIKey != "" && r.Agent != "" })])
		if r := w.audit(conn); r.OK || len(r.Differences) != 1 || r.Older.Rows != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
