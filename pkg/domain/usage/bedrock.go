package usage

import (
	"encoding/json"
	"slices"
)

// bedrockUsage is Converse's usage: inputTokens excludes cache reads and
// writes, as with Anthropic. totalTokens is not relied on: it may be with or
// without the cache, and for streams of OpenAI-family models it was seen to
// count writes twice.
type bedrockUsage struct {
	Input      count `json:"inputTokens"`
	Output     count `json:"outputTokens"`
	Total      count `json:"totalTokens"`
	CacheRead  count `json:"cacheReadInputTokens"`
	CacheWrite count `json:"cacheWriteInputTokens"`
	Details    []struct {
		Input count `json:"inputTokens"`
		TTL   text  `json:"ttl"`
	} `json:"cacheDetails"`
}

// bedrockBody is a Converse answer, a ConverseStream event or a bare usage.
type bedrockBody struct {
	Usage    *bedrockUsage `json:"usage"`
	Metadata struct {
		Usage *bedrockUsage `json:"usage"`
	} `json:"metadata"`
	ServiceTier struct {
		Type text `json:"type"`
	} `json:"serviceTier"`
	Stream []json.RawMessage `json:"stream"`
	bedrockUsage
}

func (b *bedrockBody) find() *bedrockUsage {
	switch {
	case b.Usage != nil:
		return b.Usage
	case b.Metadata.Usage != nil:
		return b.Metadata.Usage
	}
	return &b.bedrockUsage
}

func (b *bedrockUsage) any() bool { return b.Input.set || b.Output.set }

func parseBedrock(u *reading, raw []byte) (bool, error) {
	var b bedrockBody
	if err := decode(raw, &b); err != nil {
		return false, err
	}
	if err := fits(b.Stream); err != nil {
		return false, err
	}
	found := b.find()
	for _, event := range b.Stream {
		var e bedrockBody
		if err := decode(event, &e); err != nil {
			return false, err
		}
		if e.find().any() {
			found = e.find()
		}
	}
	replace(&u.ServiceTier, b.ServiceTier.Type)
	if !found.any() {
		u.flag(FlagMissing)
		return false, nil
	}
	var fiveMinutes, oneHour int64
	for _, d := range found.Details {
		if d.TTL == "1h" {
			oneHour = plus(oneHour, d.Input.n)
		} else {
			fiveMinutes = plus(fiveMinutes, d.Input.n)
		}
	}
	plain := found.Input.n + found.Output.n
	all := plain + found.CacheRead.n + found.CacheWrite.n
	if found.Total.set && !slices.Contains([]int64{plain, all, all + found.CacheWrite.n}, found.Total.n) {
		u.flag(FlagTotalMismatch)
	}
	u.Meters.Add(Input, found.Input.n)
	u.Meters.Add(CacheRead, found.CacheRead.n)
	u.addWrites(found.CacheWrite.n, fiveMinutes, oneHour)
	u.Meters.Add(Output, found.Output.n)
	return true, nil
}
