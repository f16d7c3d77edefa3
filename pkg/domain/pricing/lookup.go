package pricing

import (
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Flags of a cost.
const (
	FlagModelAlias      = "model_alias"           // found after a date suffix was dropped
	FlagMissingRate     = "missing_rate_fallback" // a dearer or unfitting rate stood in for a missing one
	FlagMissingGeo      = "geo_rate_missing"      // computed in a place for which the book has no multiplier
	FlagMissingSpeed    = "speed_rate_missing"    // idem for a speed
	basisBatchHalf      = "batch_half"            // half of the standard rate
	basisStandard       = "standard_tier"         // the tier has no rate of its own
	basisSubstitute     = "rate_of:"              // followed by the meter whose rate it is
	basisMultiplierSign = "×"                     // followed by the multiplier's name
)

// picked is a rate with how it was come by.
type picked struct {
	rate    money.Decimal
	basis   string // empty: the meter's own rate at the asked tier
	flagged bool
}

// substitute is a meter whose rate may stand in. The flag is raised unless
// the substitution is what providers themselves do.
type substitute struct {
	meter   usage.Meter
	basis   string // that of a rate which is no other's in turn
	flagged bool
}

// substitutes lists what may stand in for a meter that has no rate, in order, as far as there is any: not on the heap, since
// reasoning has no rate of its own with most models.
// What is not here stays unpriced, because what could stand in is cheaper than
// any list has it: one hour cache writes, audio, generated images.
func substitutes(m usage.Meter) [2]substitute {
	input := substitute{usage.Input, basisSubstitute + string(usage.Input), true}
	switch m {
	case usage.CacheRead, usage.InputImage, usage.InputVideo:
		return [2]substitute{input}
	case usage.AudioCacheRead:
		return [2]substitute{{usage.CacheRead, basisSubstitute + string(usage.CacheRead), false}, {usage.InputAudio, basisSubstitute + string(usage.InputAudio), true}}
	case usage.CacheWrite5m: // price lists have one name for both
		return [2]substitute{{usage.CacheWrite, basisSubstitute + string(usage.CacheWrite), false}}
	case usage.Reasoning:
		return [2]substitute{{usage.Output, basisSubstitute + string(usage.Output), false}}
	case usage.WebSearchLow, usage.WebSearchHigh:
		return [2]substitute{{usage.WebSearch, basisSubstitute + string(usage.WebSearch), true}}
	}
	return [2]substitute{}
}

// pick chooses the rate of m for a prompt of context tokens.
func (v *Version) pick(m usage.Meter, tier string, context int64) (picked, bool) {
	if p, ok := v.own(m, tier, context); ok {
		return p, true
	}
	for _, s := range substitutes(m) {
		if s.meter == "" {
			break
		}
		if p, ok := v.own(s.meter, tier, context); ok {
			p.basis = listed(s.basis, p.basis)
			p.flagged = p.flagged || s.flagged
			return p, true
		}
	}
	return picked{}, false
}

// own chooses among the rates of m itself: the highest crossed threshold that
// has a rate of the tier or a standard one; the tier's own first.
func (v *Version) own(m usage.Meter, tier string, context int64) (picked, bool) {
	var standard *Rate
	for i := range v.Rates {
		r := &v.Rates[i]
		if r.Meter != m || !v.Tier.crossed(r.AboveTokens, context) {
			continue
		}
		if standard != nil && standard.AboveTokens != r.AboveTokens {
			break
		}
		if r.ServiceTier == tier {
			return picked{rate: r.USDPerUnit}, true
		}
		if r.ServiceTier == "" {
			standard = r
		}
	}
	switch {
	case standard == nil:
		return picked{}, false
	case m.Unit() != usage.Tokens: // tiers are about tokens
		return picked{rate: standard.USDPerUnit}, true
	case tier == TierBatch:
		return picked{rate: standard.USDPerUnit.Half(), basis: basisBatchHalf}, true
	}
	return picked{rate: standard.USDPerUnit, basis: basisStandard, flagged: true}, true
}

func (t TierRule) crossed(above, context int64) bool {
	return above == 0 || context > above || t.Inclusive && context == above
}

// listed is a list of words, joined by commas, with another one at its end.
func listed(list, word string) string {
	if list == "" || word == "" {
		return list + word
	}
	return list + "," + word
}

// multipliers are those of all token rates that apply: their product, which counts where there are names, and their names.
type multipliers struct {
	product money.Decimal
	names   string
}

// multipliers that apply, and flags for those that should exist and do not.
func (v *Version) multipliers(geo, speed string) (m multipliers, flags []string) {
	apply := func(keys ...string) bool {
		for _, key := range keys {
			if f, ok := v.Multipliers[key]; ok {
				if m.names != "" {
					f = m.product.Mul(f)
				}
				m.product, m.names = f, listed(m.names, basisMultiplierSign+key)
				return true
			}
		}
		return false
	}
	switch geo = strings.ToLower(geo); geo {
	case "", "global", "not_available": // no particular place
	default:
		if !apply("geo:"+geo, "region:"+geo) {
			flags = append(flags, FlagMissingGeo)
		}
	}
	switch speed = strings.ToLower(speed); speed {
	case "", "standard":
	default:
		if !apply("speed:" + speed) {
			flags = append(flags, FlagMissingSpeed)
		}
	}
	return m, flags
}
