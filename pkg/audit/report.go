package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxDifferences bounds a report; the rest is counted.
const maxDifferences = 1000

// Difference is one place where two sources disagree.
type Difference struct {
	// Where is the store: log, journal, ledger, windows topic, windows table, redis.
	Where string `json:"where"`
	// What names the row, window or counter.
	What string `json:"what"`
	// Expected is what the log says, Found what stands there.
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: expected %s, found %s", d.Where, d.What, d.Expected, d.Found)
}

// Report is the result of one audit.
type Report struct {
	Events      int64  `json:"usage_events"`
	Entries     int64  `json:"journal_entries"`
	Markers     int64  `json:"epoch_markers"`
	DeadLetters int64  `json:"dead_letters"`
	Duplicates  int64  `json:"duplicate_events"`
	LedgerRows  int64  `json:"ledger_rows"`
	Windows     int64  `json:"windows"`
	Tenants     int64  `json:"tenants"`
	Executions  int64  `json:"executions"`
	Scopes      int64  `json:"scopes"`
	RawCostUSD  string `json:"raw_cost_usd"`
	BilledUSD   string `json:"billed_cost_usd"`
	// Older are ledger rows that an earlier build wrote, without columns of which the journal has something to say. They are
	// no differences: the rows are not wrong, and nothing will ever fill them.
	Older       OlderRows    `json:"rows_of_earlier_builds"`
	Differences []Difference `json:"differences"`
	Unlisted    int64        `json:"differences_not_listed"`
	OK          bool         `json:"ok"`
	// Settled says that nothing moved while it was read; what did is in Moving. Where it is false, differences may be none.
	Settled bool     `json:"settled"`
	Moving  []string `json:"still_moving"`
}

// OlderRows are counted, with when the first and the last of them were recorded; both are nil where there are none.
type OlderRows struct {
	Rows int64      `json:"rows"`
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
}

// older counts a row of an earlier build.
func (r *Report) older(recorded time.Time) {
	o := &r.Older
	o.Rows++
	if o.From == nil || recorded.Before(*o.From) {
		o.From = &recorded
	}
	if o.To == nil || recorded.After(*o.To) {
		o.To = &recorded
	}
}

// Unsettled notes what moved while the books were read: then they are not ok, whatever was found. Nothing = settled.
func (r *Report) Unsettled(moving []string) {
	r.Settled, r.Moving = len(moving) == 0, append([]string{}, moving...)
	r.OK = r.OK && r.Settled
}

// differ adds a difference.
func (r *Report) differ(where, what, expected, found string) {
	if len(r.Differences) >= maxDifferences {
		r.Unlisted++
		return
	}
	r.Differences = append(r.Differences, Difference{where, what, expected, found})
}

// same adds a difference unless the two are equal.
func same[T comparable](r *Report, where, what string, expected, found T) {
	if expected != found {
		r.differ(where, what, fmt.Sprint(expected), fmt.Sprint(found))
	}
}

func (r *Report) finish() {
	slices.SortStableFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.What, b.What))
	})
	r.OK = len(r.Differences) == 0
}
