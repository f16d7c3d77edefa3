package usage_test

import (
	"slices"
	"testing"

	"github.com/weir-project/weir/pkg/domain/usage"
)

// Goal: usage that is not charged, and counts that contradict one another, are seen; what providers add beside is not.
func TestStrangeUsageIsFlagged(t *testing.T) {
	const unknown, mismatch = usage.FlagUnknown, usage.FlagTotalMismatch
	for _, c := range []struct {
		provider, api, raw string
		want               []string
	}{
		{"openai", "chat.completions", `{"promt_tokens":1200,"completion_tokens":5}`, []string{unknown}},
		{"openai", "chat.completions", `{"promt_tokens":1200,"completion_tokens":5,"total_tokens":1205}`, []string{mismatch, unknown}},
		{"openai", "chat.completions", `{"usage":{"prompt_tokens":1,"completion_tokens":5,"tokens_in":7}}`, []string{unknown}},
		{"openai", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_token":3}}`, []string{unknown}},
		{"openai", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"PROMPT_TOKENS_DETAILS":{"Cached_Tokens":3}}`, nil},
		{"openai", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"cache_read_input_tokens":4,"\u0061":1}`, []string{unknown}},
		{"openai", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"cache_read_input_tokens":0,"queue_time":3,"tokens_per_second":80.5,"token_kind":"x","cost":1}`, nil},
		{"openai", "responses", `{"id":"r","max_output_tokens":4096,"reasoning":{"budget_tokens":7},"output":[{"text":"\"tokens_in\": 3"}],"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":14}}`, nil},
		{"openai", "responses", `{"stream":[{"type":"x"},{"response":{"max_output_tokens":9,"usage":{"input_tokens":9,"output_token":5}}}]}`, []string{unknown}},
		{"openai", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"total_tokens":99}`, []string{mismatch}},
		{"openai", "chat.completions", `{"prompt_tokens":9,"input_tokens":8,"completion_tokens":5}`, []string{mismatch}},
		{"openai", "images.generate", `{"input_tokens":9,"output_tokens":5,"total_tokens":99}`, []string{mismatch}},
		{"perplexity", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"total_tokens":99}`, []string{mismatch}},
		{"gemini", "chat.completions", `{"prompt_tokens":9,"completion_tokens":5,"total_tokens":3}`, []string{mismatch}},
		{"anthropic", "messages", `{"input_tokens":9,"completion_tokens":5}`, []string{unknown}},
		{"anthropic", "messages", `{"usage":{"input_tokens":9,"output_tokens":5,"output_tokens_details":{"thinking_tokens":3},"cache_creation":{"ephemeral_5m_input_tokens":1}}}`, nil},
		{"anthropic", "messages", `{"usage":{"input_tokens":9,"output_tokens":5,"cache_creation":{"ephemeral_2h_input_tokens":1}}}`, []string{unknown}},
		{"gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":9,"candidateTokenCount":5}}`, []string{unknown}},
		{"gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":99}}`, []string{mismatch}},
		{"aws.bedrock", "Converse", `{"usage":{"inputTokens":9,"outputTokens":5,"totalTokens":99}}`, []string{mismatch}},
		{"aws.bedrock", "Converse", `{"usage":{"inputTokens":9,"outputTokens":5,"cacheReadTokens":99,"totalTokens":14}}`, []string{unknown}},
		{"cohere", "v2/chat", `{"usage":{"billed_units":{"input_tokens":9,"output_token":5},"tokens":{"anything_tokens":4}}}`, []string{unknown}},
	} {
		u, err := usage.Normalise(c.provider, c.api, []byte(c.raw))
		if err != nil || !slices.Equal(u.Flags, c.want) {
			t.Errorf("%s %s: flags %v, want %v (%v)", c.api, c.raw, u.Flags, c.want, err)
		}
	}
}
