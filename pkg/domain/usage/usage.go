package usage

import (
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
)

// NormaliserVersion names the rules of this package. Entries store it beside
// the raw usage, so that a change of rules can be re-rated.
const NormaliserVersion = "2"

// Flags that Normalise reports.
const (
	FlagMissing       = "usage_missing"      // the provider said nothing: estimate or reconcile
	FlagTTLUnknown    = "ttl_unknown"        // cache writes of unknown time to live, taken as 5 minutes
	FlagCacheOverlap  = "cache_overlap"      // cached tokens exceed the text part: modalities capped by it
	FlagTotalMismatch = "total_mismatch"     // the stated total is not the sum of its parts, or one count is stated twice and differently
	FlagUnknown       = "unknown_usage"      // tokens are counted under a name that the api does not have: not charged, or not at their rate
	FlagIterations    = "iterations_exceed"  // sampling passes add up to more than the stated usage
	FlagThinkingGap   = "thinking_from_gap"  // reasoning found only as the gap in the total
	FlagSplitMismatch = "cache_ttl_mismatch" // the split by time to live exceeds the stated cache writes
)

// TierStandard is the service tier at list price.
const TierStandard = "standard"

const tierBatch = "batch"

// Meters maps each meter to its quantity, always above zero.
type Meters map[Meter]money.Decimal

// Add counts n more of a meter; nothing for n below 1.
func (m Meters) Add(name Meter, n int64) {
	if n <= 0 {
		return
	}
	q := money.NewDecimal(n)
	if had, ok := m[name]; ok {
		q = had.Add(q)
	}
	m[name] = q
}

// Sorted returns the meters in the order of their names.
func (m Meters) Sorted() []Meter {
	names := make([]Meter, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Usage is what one call consumed, as facts: no prices.
type Usage struct {
	Provider      string // as OpenTelemetry names it; from a span, the span's own
	Model         string // as the response reports it, "" if it does not
	ResponseID    string
	ServiceTier   string // standard, flex, priority, batch, …; "" if the response does not say
	Batch         bool   // known to be a batch job from its shape
	InferenceGeo  string // where it was computed, if reported ("us")
	Speed         string // standard or fast, if reported
	Meters        Meters
	ContextTokens *int64 // whole prompt; nil when the call has no prompt in tokens
	Flags         []string
}

// FromMeters makes a Usage of meters that a caller has measured itself.
func FromMeters(m Meters) Usage {
	u := Usage{Meters: m}
	for meter := range m {
		if meter.IsInput() {
			n := u.InputTokens()
			u.ContextTokens = &n
			break
		}
	}
	return u
}

// Failed is the part of u that a failed call is charged for: a failed call
// settles no output cost. The whole prompt, its length
// and all flags stay; u itself is not changed.
func (u Usage) Failed() Usage {
	kept := make(Meters, len(u.Meters))
	for m, q := range u.Meters {
		if !m.IsProduct() {
			kept[m] = q
		}
	}
	u.Meters = kept
	return u
}

// Missing reports whether the provider gave no usage at all.
func (u Usage) Missing() bool { return slices.Contains(u.Flags, FlagMissing) }

// InputTokens is the whole prompt: the sum of the input_*_tokens meters.
func (u Usage) InputTokens() int64 {
	in, _ := u.Tokens()
	return in
}

// OutputTokens is the whole completion, reasoning included.
func (u Usage) OutputTokens() int64 {
	_, out := u.Tokens()
	return out
}

// Tokens are InputTokens and OutputTokens.
func (u Usage) Tokens() (in, out int64) {
	for m, q := range u.Meters {
		switch n, _ := q.Int64(); {
		case m.IsInput():
			in += n
		case m.IsOutput():
			out += n
		}
	}
	return in, out
}

// flag notes a flag once; flags stay sorted.
func (u *Usage) flag(f string) {
	if at, found := slices.BinarySearch(u.Flags, f); !found {
		u.Flags = slices.Insert(u.Flags, at, f)
	}
}
