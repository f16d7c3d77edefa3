package window

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Delta is what one ledger entry adds to the totals of its windows. A reversal's figures are negative.
type Delta struct {
	Own, External money.Nano
	// Raw and Billed are zero for an unpriced entry, which Unpriced counts.
	Raw, Billed               money.USD
	InputTokens, OutputTokens int64
	// Unpriced and Estimated are +1, 0 or -1: a reversal takes back what it reverses.
	Unpriced, Estimated int64
	EventTime           time.Time
	Depth               int32
}

// Total is everything folded so far for one window of one scope.
type Total struct {
	// Version is the journal offset of the last folded entry + 1; 0 = nothing folded.
	Version                                  int64
	Own, External                            money.Nano
	Raw, Billed                              money.USD
	InputTokens, OutputTokens                int64
	Entries, UnpricedEntries, EstimatedCount int64
	// Latest is the latest event time folded, MaxDepth the deepest call.
	Latest   time.Time
	MaxDepth int32
}

// Add folds the entry at a journal offset. An offset below the version is one that was folded already: the total is
// returned as it is. The error is a total beyond the bound of a counter (money.MaxNano); the total is then unchanged.
func (t Total) Add(d Delta, offset int64) (Total, error) {
	if offset < t.Version {
		return t, nil
	}
	own, err := t.Own.Add(d.Own)
	if err != nil {
		return t, fmt.Errorf("own total: %w", err)
	}
	external, err := t.External.Add(d.External)
	if err != nil {
		return t, fmt.Errorf("external total: %w", err)
	}
	t.Version, t.Own, t.External = offset+1, own, external
	t.Raw, t.Billed = t.Raw.Add(d.Raw), t.Billed.Add(d.Billed)
	t.InputTokens += d.InputTokens
	t.OutputTokens += d.OutputTokens
	t.Entries++
	t.UnpricedEntries += d.Unpriced
	t.EstimatedCount += d.Estimated
	if d.EventTime.After(t.Latest) {
		t.Latest = d.EventTime
	}
	t.MaxDepth = max(t.MaxDepth, d.Depth)
	return t, nil
}
