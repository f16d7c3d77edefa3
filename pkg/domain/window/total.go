package window

import (
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

// most is where the nano-dollars of a total stay, $2.3 billion either way: what a tenant's producers report must not stop
// the totals of others. An entry has at most money.MaxNano, and so has a counter of the budget store, which is held there.
const most = money.Nano(1) << 61

func add(a, b money.Nano) money.Nano { return within(a + within(b)) }

func within(n money.Nano) money.Nano { return max(-most, min(most, n)) }

// Add folds the entry at a journal offset. An offset below the version is one that was folded already: the total is
// returned as it is.
func (t Total) Add(d Delta, offset int64) Total {
	if offset < t.Version {
		return t
	}
	t.Version, t.Own, t.External = offset+1, add(t.Own, d.Own), add(t.External, d.External)
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
	return t
}
