package litellm

import (
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// plausible reports what a person should check before publishing. It changes
// nothing.
func (r *row) plausible() {
	r.size()
	r.oneHour()
	for _, tier := range r.tierNames() {
		r.tier(tier)
	}
	r.expected()
	if !slices.ContainsFunc(r.version.Rates, func(rate pricing.Rate) bool { return !rate.USDPerUnit.IsZero() }) {
		r.report("", Free, "every price is zero: calls will cost nothing")
	}
}

// size finds units that are wrong by a factor: a price per million typed as
// one per token, a token's price typed as an image's.
func (r *row) size() {
	tokenLimit := money.NewDecimal(1).PerThousand()                // $1,000 per million tokens
	imageFloor := money.NewDecimal(10).PerThousand().PerThousand() // a thousandth of a cent
	for _, rate := range r.version.Rates {
		switch {
		case rate.Meter.Unit() == usage.Tokens && rate.USDPerUnit.Cmp(tokenLimit) > 0:
			r.report(string(rate.Meter), Implausible, "%s dollars per token: a price per thousand or million?", rate.USDPerUnit)
		case (rate.Meter == usage.InputImages || rate.Meter == usage.OutputImages) && !rate.USDPerUnit.IsZero() && rate.USDPerUnit.Cmp(imageFloor) < 0:
			r.report(string(rate.Meter), Implausible, "%s dollars per image: a price per token?", rate.USDPerUnit)
		}
	}
}

// oneHour: writing for an hour costs twice the input rate; tenfold is a typo.
func (r *row) oneHour() {
	input, ok := r.find(usage.Input, "", 0)
	if write, has := r.find(usage.CacheWrite1h, "", 0); ok && has && write.Cmp(input.Mul(money.NewDecimal(10))) > 0 {
		r.report("cache_creation_input_token_cost_above_1hr", Implausible, "%s is more than 10 times the input price %s", write, input)
	}
}

func (r *row) tierNames() []string {
	var names []string
	for _, rate := range r.version.Rates {
		if rate.ServiceTier != "" && !slices.Contains(names, rate.ServiceTier) {
			names = append(names, rate.ServiceTier)
		}
	}
	return names
}

// tier compares a tier with the base: complete, different, and with the same
// ratio for each meter.
func (r *row) tier(tier string) {
	base, hasBase := r.find(usage.Input, "", 0)
	input, hasInput := r.find(usage.Input, tier, 0)
	if _, hasOutput := r.find(usage.Output, tier, 0); hasInput != hasOutput {
		r.report("", TierMissing, "tier %s prices only one of input and output", tier)
	}
	if !hasBase || !hasInput {
		return
	}
	if input.Cmp(base) == 0 && !base.IsZero() {
		r.report("", TierEqual, "tier %s has the base price", tier)
	}
	if input.Cmp(base.Mul(money.NewDecimal(10))) > 0 {
		r.report("", Implausible, "tier %s: input %s is more than 10 times the base %s", tier, input, base)
	}
	for _, m := range []usage.Meter{usage.Output, usage.CacheRead, usage.CacheWrite} {
		mBase, ok := r.find(m, "", 0)
		mTier, ok2 := r.find(m, tier, 0)
		if ok && ok2 && mTier.Mul(base).Cmp(mBase.Mul(input)) != 0 {
			r.report("", TierRatio, "tier %s: %s is %s of %s, input is %s of %s", tier, m, mTier, mBase, input, base)
		}
	}
}

// expected names rates that a provider is known to have and a row lacks: calls
// that use them fall back to a dearer rate.
func (r *row) expected() {
	v := &r.version
	if input, ok := r.find(usage.Input, "", 0); v.Mode != "chat" || !ok || input.IsZero() {
		return
	}
	_, hasRead := r.find(usage.CacheRead, "", 0)
	_, hasBatch := r.find(usage.Input, pricing.TierBatch, 0)
	_, hasAudio := r.find(usage.InputAudio, "", 0)
	_, hasAudioRead := r.find(usage.AudioCacheRead, "", 0)
	if !hasRead && slices.Contains([]string{"openai", "azure", "anthropic", "gemini", "mistral", "deepseek"}, v.Provider) {
		r.report("cache_read_input_token_cost", RateMissing, "cached tokens will be priced as uncached ones")
	}
	if !hasBatch && slices.Contains([]string{"azure", "mistral"}, v.Provider) {
		r.report("input_cost_per_token_batches", RateMissing, "batch jobs will be priced at half of the standard rate")
	}
	if hasAudio && hasRead && !hasAudioRead {
		r.report("cache_read_input_audio_token_cost", RateMissing, "cached audio will be priced as cached text")
	}
}
