package usage

// plainMember takes a member of a response, of a chunk or of a bare usage object. Streams, batches and audio are rare,
// and not plain.
func (b *openAIBody) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "id":
		return r.words(&b.ID)
	case "model":
		return r.words(&b.Model)
	case "service_tier":
		return r.words(&b.ServiceTier)
	case "usage":
		return plainPointer(r, &b.Usage, (*openAIUsage).plainMember)
	case "stream", "response":
		return false
	}
	return b.openAIUsage.plainMember(name, r)
}

func (o *openAIUsage) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "prompt_tokens":
		return r.count(&o.PromptTokens)
	case "input_tokens":
		return r.count(&o.InputTokens)
	case "completion_tokens":
		return r.count(&o.CompletionTokens)
	case "output_tokens":
		return r.count(&o.OutputTokens)
	case "total_tokens":
		return r.count(&o.TotalTokens)
	case "prompt_tokens_details":
		return plainPointer(r, &o.PromptDetails, (*openAIInDetails).plainMember)
	case "input_tokens_details":
		return plainPointer(r, &o.InputDetails, (*openAIInDetails).plainMember)
	case "input_token_details":
		return plainPointer(r, &o.InputDetail, (*openAIInDetails).plainMember)
	case "completion_tokens_details":
		return plainPointer(r, &o.CompletionDetail, (*openAIOutDetail).plainMember)
	case "output_tokens_details":
		return plainPointer(r, &o.OutputDetails, (*openAIOutDetail).plainMember)
	case "prompt_cache_hit_tokens":
		return r.count(&o.CacheHitTokens)
	case "seconds", "prompt_audio_seconds":
		return false
	case "citation_tokens":
		return r.count(&o.CitationTokens)
	case "num_search_queries":
		return r.count(&o.SearchQueries)
	case "reasoning_tokens":
		return r.count(&o.ReasoningTokens)
	}
	return r.skip(name)
}

func (d *openAIInDetails) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "cached_tokens":
		return r.count(&d.Cached)
	case "cache_write_tokens":
		return r.count(&d.Written)
	case "audio_tokens":
		return r.count(&d.Audio)
	case "image_tokens":
		return r.count(&d.Image)
	case "cached_tokens_details":
		return false
	}
	return r.skip(name)
}

func (d *openAIOutDetail) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "reasoning_tokens":
		return r.count(&d.Reasoning)
	case "audio_tokens":
		return r.count(&d.Audio)
	case "image_tokens":
		return r.count(&d.Image)
	case "text_tokens":
		return r.count(&d.Text)
	}
	return r.skip(name)
}

// plainPointer reads an object that was not there yet; null leaves it so.
func plainPointer[T any](r *plainReader, into **T, member func(*T, []byte, *plainReader) bool) bool {
	if *into != nil {
		return false
	}
	if r.null() {
		return true
	}
	*into = new(T)
	return r.object(func(name []byte, r *plainReader) bool { return member(*into, name, r) })
}

// plainMember takes a member of a message or of a bare usage object. Streams and batches are not plain.
func (b *anthropicBody) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "id":
		return r.words(&b.ID)
	case "model":
		return r.words(&b.Model)
	case "usage":
		return r.null() || r.object(b.Usage.plainMember)
	case "message", "stream", "result":
		return false
	case "custom_id":
		return r.words(&b.CustomID)
	}
	return b.anthropicUsage.plainMember(name, r)
}

func (a *anthropicUsage) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "input_tokens":
		return r.count(&a.Input)
	case "cache_creation_input_tokens":
		return r.count(&a.CacheWrite)
	case "cache_read_input_tokens":
		return r.count(&a.CacheRead)
	case "output_tokens":
		return r.count(&a.Output)
	case "service_tier":
		return r.words(&a.ServiceTier)
	case "inference_geo":
		return r.words(&a.InferenceGeo)
	case "speed":
		return r.words(&a.Speed)
	case "cache_creation":
		return r.null() || r.object(a.Creation.plainMember)
	case "server_tool_use":
		return r.null() || r.object(a.Tools.plainMember)
	case "iterations":
		return false
	}
	return r.skip(name)
}

func (t *anthropicTTL) plainMember(name []byte, r *plainReader) bool {
	switch string(name) {
	case "ephemeral_5m_input_tokens":
		return r.count(&t.FiveMinutes)
	case "ephemeral_1h_input_tokens":
		return r.count(&t.OneHour)
	}
	return r.skip(name)
}

func (t *anthropicTools) plainMember(name []byte, r *plainReader) bool {
	if string(name) == "web_search_requests" {
		return r.count(&t.WebSearches)
	}
	return r.skip(name)
}
