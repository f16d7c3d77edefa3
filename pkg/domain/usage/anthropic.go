package usage

import "encoding/json"

// anthropicUsage is Anthropic's usage object. The three input counts exclude
// each other; the prompt is their sum. cache_creation splits the writes by
// time to live. Web fetches are free and not metered.
type anthropicUsage struct {
	Input        count           `json:"input_tokens"`
	CacheWrite   count           `json:"cache_creation_input_tokens"`
	CacheRead    count           `json:"cache_read_input_tokens"`
	Output       count           `json:"output_tokens"` // inclusive; its details only inform
	ServiceTier  text            `json:"service_tier"`
	InferenceGeo text            `json:"inference_geo"`
	Speed        text            `json:"speed"`
	Creation     anthropicTTL    `json:"cache_creation"`
	Tools        anthropicTools  `json:"server_tool_use"`
	Iterations   []anthropicIter `json:"iterations"`
}

type anthropicTTL struct {
	FiveMinutes count `json:"ephemeral_5m_input_tokens"`
	OneHour     count `json:"ephemeral_1h_input_tokens"`
}

type anthropicTools struct {
	WebSearches count `json:"web_search_requests"`
}

type anthropicIter struct {
	Input  count `json:"input_tokens"`
	Output count `json:"output_tokens"`
}

// anthropicBody is a message, a stream event, a batch result or a bare usage
// object. Events are decoded in turn into one value: counts in message_delta
// are cumulative and an absent field keeps what message_start said.
type anthropicBody struct {
	ID      text              `json:"id"`
	Model   text              `json:"model"`
	Usage   anthropicUsage    `json:"usage"`
	Message anthropicMessage  `json:"message"` // message_start
	Stream  []json.RawMessage `json:"stream"`
	Result  struct {
		Message anthropicMessage `json:"message"`
	} `json:"result"` // a line of a batch's results
	CustomID text `json:"custom_id"`
	anthropicUsage
}

type anthropicMessage struct {
	ID    text           `json:"id"`
	Model text           `json:"model"`
	Usage anthropicUsage `json:"usage"`
}

func (a *anthropicUsage) any() bool {
	return a.Input.set || a.Output.set || a.CacheRead.set || a.CacheWrite.set
}

func parseAnthropic(u *reading, raw []byte) (bool, error) {
	var b anthropicBody
	if !u.plainly(raw, b.plainMember) {
		b = anthropicBody{} // of what was read so far
		if err := decode(raw, &b); err != nil {
			return false, err
		}
	}
	if stream := b.Stream; stream != nil {
		b = anthropicBody{}
		if err := foldAnthropic(&b, stream); err != nil {
			return false, err
		}
	}
	a := b.Usage
	switch {
	case a.any():
	case b.Message.Usage.any():
		a = b.Message.Usage
	case b.Result.Message.Usage.any():
		a, u.Batch = b.Result.Message.Usage, true
	default:
		a = b.anthropicUsage
	}
	for _, m := range []anthropicMessage{{ID: b.ID, Model: b.Model}, b.Message, b.Result.Message} {
		replace(&u.ResponseID, m.ID)
		replace(&u.Model, m.Model)
	}
	if !a.any() {
		u.flag(FlagMissing)
		return false, nil
	}
	return true, u.addAnthropic(&a)
}

// foldAnthropic lets message_start and the deltas write into one usage.
func foldAnthropic(b *anthropicBody, stream []json.RawMessage) error {
	if err := fits(stream); err != nil {
		return err
	}
	for _, event := range stream {
		var head struct {
			Message json.RawMessage `json:"message"`
			Usage   json.RawMessage `json:"usage"`
		}
		if err := decode(event, &head); err != nil {
			return err
		}
		if head.Message != nil {
			b.Message.Usage = b.Usage
			if err := decode(head.Message, &b.Message); err != nil {
				return err
			}
			b.Usage = b.Message.Usage
		}
		if head.Usage != nil {
			if err := decode(head.Usage, &b.Usage); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *Usage) addAnthropic(a *anthropicUsage) error {
	u.ServiceTier = string(a.ServiceTier)
	u.Batch = u.Batch || a.ServiceTier == "batch"
	u.InferenceGeo = string(a.InferenceGeo)
	u.Speed = string(a.Speed)
	u.Meters.Add(Input, a.Input.n)
	u.Meters.Add(CacheRead, a.CacheRead.n)
	u.addWrites(a.CacheWrite.n, a.Creation.FiveMinutes.n, a.Creation.OneHour.n)
	u.Meters.Add(Output, a.Output.n)
	u.Meters.Add(WebSearch, a.Tools.WebSearches.n)
	passes := int64(0)
	for _, it := range a.Iterations {
		passes = plus(passes, it.Input.n+it.Output.n)
	}
	if passes > a.Input.n+a.Output.n {
		u.flag(FlagIterations)
	}
	return nil
}

// addWrites adds cache writes by their time to live; what the split leaves
// out has the default of 5 minutes.
func (u *Usage) addWrites(total, fiveMinutes, oneHour int64) {
	if split := fiveMinutes + oneHour; split < total {
		fiveMinutes = total - oneHour
	} else if split > total && total > 0 {
		u.flag(FlagSplitMismatch)
	}
	u.Meters.Add(CacheWrite5m, fiveMinutes)
	u.Meters.Add(CacheWrite1h, oneHour)
}
