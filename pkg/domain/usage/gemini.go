package usage

import (
	"encoding/json"
	"fmt"
)

// geminiUsage is usageMetadata. The prompt includes the cached part, also in
// the modality details; tool results are a prompt of their own beside it.
type geminiUsage struct {
	Prompt         count          `json:"promptTokenCount"`
	Cached         count          `json:"cachedContentTokenCount"`
	Candidates     count          `json:"candidatesTokenCount"`
	Response       count          `json:"responseTokenCount"` // the Live API's name
	Thoughts       count          `json:"thoughtsTokenCount"`
	ToolUse        count          `json:"toolUsePromptTokenCount"`
	Total          count          `json:"totalTokenCount"`
	PromptParts    []geminiDetail `json:"promptTokensDetails"`
	CachedParts    []geminiDetail `json:"cacheTokensDetails"`
	ToolParts      []geminiDetail `json:"toolUsePromptTokensDetails"`
	CandidateParts []geminiDetail `json:"candidatesTokensDetails"`
	ResponseParts  []geminiDetail `json:"responseTokensDetails"`
	Traffic        text           `json:"trafficType"`
}

type geminiDetail struct {
	Modality text  `json:"modality"`
	Tokens   count `json:"tokenCount"`
}

type geminiBody struct {
	ResponseID text              `json:"responseId"`
	Model      text              `json:"modelVersion"`
	Usage      *geminiUsage      `json:"usageMetadata"`
	Stream     []json.RawMessage `json:"stream"`
	geminiUsage
}

func (g *geminiUsage) any() bool { return g.Prompt.set || g.Candidates.set || g.Response.set }

func parseGemini(u *reading, raw []byte) (bool, error) {
	var b geminiBody
	if err := decode(raw, &b); err != nil {
		return false, err
	}
	if err := fits(b.Stream); err != nil {
		return false, err
	}
	for _, chunk := range b.Stream { // each chunk repeats the totals so far
		var c geminiBody
		if err := decode(chunk, &c); err != nil {
			return false, err
		}
		if c.Usage != nil {
			b.Usage = c.Usage
		}
		b.ResponseID, b.Model = c.ResponseID, c.Model
	}
	replace(&u.ResponseID, b.ResponseID)
	replace(&u.Model, b.Model)
	g := b.Usage
	if g == nil {
		g = &b.geminiUsage
	}
	if !g.any() {
		u.flag(FlagMissing)
		return false, nil
	}
	switch g.Traffic {
	case "ON_DEMAND_PRIORITY":
		u.ServiceTier = "priority"
	case "ON_DEMAND_FLEX":
		u.ServiceTier = "flex"
	}
	return true, u.addGemini(g)
}

func (u *Usage) addGemini(g *geminiUsage) error {
	parts := append(append([]geminiDetail(nil), g.PromptParts...), g.ToolParts...)
	p := prompt{
		total: g.Prompt.n + g.ToolUse.n, cached: g.Cached.n,
		audio: modality(parts, "AUDIO"), image: modality(parts, "IMAGE"), video: modality(parts, "VIDEO"),
		cachedAudio: modality(g.CachedParts, "AUDIO"),
	}
	cachedImage, cachedVideo := modality(g.CachedParts, "IMAGE"), modality(g.CachedParts, "VIDEO")
	if cachedImage > p.image || cachedVideo > p.video {
		return fmt.Errorf("%w: cached parts exceed the prompt", ErrNegative)
	}
	// Cached images have the rate of cached text: move them over to text,
	// from where the cached count is taken.
	p.image -= cachedImage
	p.video -= cachedVideo
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return err
	}
	out := append(append([]geminiDetail(nil), g.CandidateParts...), g.ResponseParts...)
	c := completion{
		total: max(g.Candidates.n, g.Response.n), reasoning: g.Thoughts.n,
		audio: modality(out, "AUDIO"), image: modality(out, "IMAGE"),
	}
	// Thoughts stand beside the candidates, except on back ends that fold
	// them in, where prompt and candidates alone give the total.
	if !g.Total.set || p.total+c.total != g.Total.n {
		c.total += c.reasoning
	}
	if g.Total.set && p.total+c.total != g.Total.n {
		u.flag(FlagTotalMismatch)
	}
	return u.addCompletion(c)
}

func modality(details []geminiDetail, name text) int64 {
	var n int64
	for _, d := range details {
		if d.Modality == name {
			n = plus(n, d.Tokens.n)
		}
	}
	return n
}
