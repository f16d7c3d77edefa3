package usage

import (
	"encoding/json"
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
)

// openAIUsage is the usage object of OpenAI and of the many servers that
// speak its dialect. Chat, Responses and audio use three spellings of the
// same fields. Counts are inclusive: cached, written and audio tokens are
// inside the prompt, reasoning and audio inside the completion.
type openAIUsage struct {
	PromptTokens     count            `json:"prompt_tokens"`
	InputTokens      count            `json:"input_tokens"`
	CompletionTokens count            `json:"completion_tokens"`
	OutputTokens     count            `json:"output_tokens"`
	TotalTokens      count            `json:"total_tokens"`
	PromptDetails    *openAIInDetails `json:"prompt_tokens_details"`
	InputDetails     *openAIInDetails `json:"input_tokens_details"`
	InputDetail      *openAIInDetails `json:"input_token_details"`
	CompletionDetail *openAIOutDetail `json:"completion_tokens_details"`
	OutputDetails    *openAIOutDetail `json:"output_tokens_details"`
	CacheHitTokens   count            `json:"prompt_cache_hit_tokens"` // DeepSeek

	Seconds      *json.Number    `json:"seconds"`              // transcription billed by time
	AudioSeconds json.RawMessage `json:"prompt_audio_seconds"` // Mistral: number, null or {}

	CitationTokens  count `json:"citation_tokens"` // Perplexity, with the next two
	SearchQueries   count `json:"num_search_queries"`
	ReasoningTokens count `json:"reasoning_tokens"`
}

type openAIInDetails struct {
	Cached        count `json:"cached_tokens"`
	Written       count `json:"cache_write_tokens"`
	Audio         count `json:"audio_tokens"`
	Image         count `json:"image_tokens"`
	CachedDetails *struct {
		Audio count `json:"audio_tokens"`
	} `json:"cached_tokens_details"`
}

type openAIOutDetail struct {
	Reasoning count `json:"reasoning_tokens"`
	Audio     count `json:"audio_tokens"`
	Image     count `json:"image_tokens"`
	Text      count `json:"text_tokens"`
}

// openAIBody is a response, a chunk, a Responses stream event, a line of a
// batch's output file, or a bare usage object: the fields do not collide.
type openAIBody struct {
	ID          text              `json:"id"`
	Model       text              `json:"model"`
	ServiceTier text              `json:"service_tier"`
	Usage       *openAIUsage      `json:"usage"`
	Stream      []json.RawMessage `json:"stream"`
	Response    *struct {
		openAIHead
		Body *openAIHead `json:"body"`
	} `json:"response"`
	openAIUsage
}

type openAIHead struct {
	ID          text         `json:"id"`
	Model       text         `json:"model"`
	ServiceTier text         `json:"service_tier"`
	Usage       *openAIUsage `json:"usage"`
}

// readOpenAI finds the usage object in raw; nil means that there is none,
// which is flagged, or an error. In a stream the last chunk that has one wins:
// totals are cumulative.
func readOpenAI(u *reading, raw []byte) (*openAIUsage, error) {
	var b openAIBody
	if !u.plainly(raw, b.plainMember) {
		b = openAIBody{} // of what was read so far
		if err := decode(raw, &b); err != nil {
			return nil, err
		}
	}
	if err := fits(b.Stream); err != nil {
		return nil, err
	}
	found := b.Usage
	if b.Stream == nil {
		found = u.openAIHead(&b)
	}
	for _, chunk := range b.Stream {
		var c openAIBody
		if err := decode(chunk, &c); err != nil {
			return nil, err
		}
		if last := u.openAIHead(&c); last != nil {
			found = last
		}
	}
	if found == nil {
		u.flag(FlagMissing)
	}
	return found, nil
}

// openAIHead takes the labels of one body and returns its usage.
func (u *Usage) openAIHead(b *openAIBody) *openAIUsage {
	head := openAIHead{b.ID, b.Model, b.ServiceTier, b.Usage}
	if r := b.Response; r != nil {
		head = r.openAIHead
		if r.Body != nil {
			head, u.Batch = *r.Body, true
		}
	}
	if head.Usage == nil && b.openAIUsage.any() {
		head.Usage = &b.openAIUsage
	}
	replace(&u.ResponseID, head.ID)
	replace(&u.Model, head.Model)
	replace(&u.ServiceTier, head.ServiceTier)
	if head.Usage != nil && !head.Usage.any() {
		return nil
	}
	return head.Usage
}

func replace(field *string, by text) {
	if by != "" {
		*field = string(by)
	}
}

func (o *openAIUsage) any() bool {
	return o.PromptTokens.set || o.InputTokens.set || o.CompletionTokens.set || o.OutputTokens.set || o.Seconds != nil
}

func (o *openAIUsage) prompt() prompt {
	p := prompt{total: max(o.PromptTokens.n, o.InputTokens.n), cached: o.CacheHitTokens.n}
	for _, d := range []*openAIInDetails{o.PromptDetails, o.InputDetails, o.InputDetail} {
		if d == nil {
			continue
		}
		p.cached = max(p.cached, d.Cached.n)
		p.written, p.audio, p.image = d.Written.n, d.Audio.n, d.Image.n
		if d.CachedDetails != nil {
			p.cachedAudio = d.CachedDetails.Audio.n
		}
	}
	return p
}

func (o *openAIUsage) completion() completion {
	c := completion{total: max(o.CompletionTokens.n, o.OutputTokens.n)}
	for _, d := range []*openAIOutDetail{o.CompletionDetail, o.OutputDetails} {
		if d != nil {
			c.reasoning, c.audio, c.image = d.Reasoning.n, d.Audio.n, d.Image.n
		}
	}
	return c
}

// checkTotal flags a total that is none of the sums that it may be, and a count that is stated in two spellings and differs.
func (u *Usage) checkTotal(o *openAIUsage, sums ...int64) {
	twice := func(a, b count) bool { return a.set && b.set && a.n != b.n }
	if o.TotalTokens.set && !slices.Contains(sums, o.TotalTokens.n) || twice(o.PromptTokens, o.InputTokens) || twice(o.CompletionTokens, o.OutputTokens) {
		u.flag(FlagTotalMismatch)
	}
}

func parseOpenAI(u *reading, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if o == nil {
		return false, err
	}
	if err := u.addSeconds(o); err != nil {
		return false, err
	}
	p, c := o.prompt(), o.completion()
	// Some servers (xAI) leave reasoning out of the completion: the total gives
	// it away.
	if total := o.TotalTokens; total.set && total.n != p.total+c.total && total.n == p.total+c.total+c.reasoning {
		c.total += c.reasoning
	}
	u.checkTotal(o, p.total+c.total)
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return false, err
	}
	return o.PromptTokens.set || o.InputTokens.set, u.addCompletion(c)
}

// addSeconds counts audio billed by time, which stands beside the tokens.
func (u *Usage) addSeconds(o *openAIUsage) error {
	number := ""
	if o.Seconds != nil {
		number = o.Seconds.String()
	} else if b := o.AudioSeconds; len(b) > 0 && b[0] != '{' && b[0] != 'n' {
		number = string(b)
	}
	if number == "" {
		return nil
	}
	q, err := parseQuantity(number)
	if err != nil {
		return err
	}
	if q.Cmp(money.Decimal{}) > 0 {
		u.Meters[AudioSeconds] = q
	}
	return nil
}

// parseOpenAIImages: without details, all output of an image model is image.
func parseOpenAIImages(u *reading, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if o == nil {
		return false, err
	}
	c := o.completion()
	if d := o.OutputDetails; d == nil || !d.Image.set {
		text := int64(0)
		if d != nil {
			text = d.Text.n
		}
		c.image = max(0, c.total-c.reasoning-text)
	}
	p := o.prompt()
	u.checkTotal(o, p.total+c.total)
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return false, err
	}
	return true, u.addCompletion(c)
}

// parseGeminiCompat reads Gemini's OpenAI-compatible endpoint, where thinking
// shows only as the gap between the total and its parts.
func parseGeminiCompat(u *reading, raw []byte) (bool, error) {
	o, err := readOpenAI(u, raw)
	if o == nil {
		return false, err
	}
	p, c := o.prompt(), o.completion()
	if gap := o.TotalTokens.n - p.total - c.total; o.TotalTokens.set && gap > 0 {
		u.flag(FlagThinkingGap)
		c.total += gap
		c.reasoning = max(gap, c.reasoning)
	}
	u.checkTotal(o, p.total+c.total)
	if err := u.addPrompt(p, CacheWrite); err != nil {
		return false, err
	}
	return true, u.addCompletion(c)
}
