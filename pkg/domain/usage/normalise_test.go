package usage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/usage"
)

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		provider, api, raw string
		want               error
	}{
		"unknown api":         {"openai", "nope", `{}`, usage.ErrUnknownAPI},
		"unknown provider":    {"acme", "", `{}`, usage.ErrUnknownAPI},
		"span of other":       {"openai", "span chat", `{}`, usage.ErrUnknownAPI},
		"not json":            {"openai", "responses", `{`, usage.ErrMalformed},
		"array":               {"openai", "responses", `[]`, usage.ErrMalformed},
		"trailing":            {"openai", "responses", `{} {}`, usage.ErrMalformed},
		"count as text":       {"openai", "responses", `{"usage":{"input_tokens":"5"}}`, usage.ErrMalformed},
		"half a token":        {"openai", "responses", `{"usage":{"input_tokens":0.5}}`, usage.ErrMalformed},
		"cached above prompt": {"openai", "chat.completions", `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":11}}}`, usage.ErrNegative},
		"reasoning above":     {"openai", "responses", `{"usage":{"output_tokens":10,"output_tokens_details":{"reasoning_tokens":11}}}`, usage.ErrNegative},
		"below zero":          {"anthropic", "messages", `{"usage":{"input_tokens":-1}}`, usage.ErrNegative},
		"2^53":                {"anthropic", "messages", `{"usage":{"input_tokens":9007199254740992}}`, usage.ErrTooLarge},
		"huge exponent":       {"anthropic", "messages", `{"usage":{"input_tokens":1e999999999}}`, usage.ErrTooLarge},
		"sum above 2^53":      {"anthropic", "messages", `{"usage":{"input_tokens":9007199254740991,"cache_read_input_tokens":1}}`, usage.ErrTooLarge},
		"too large":           {"openai", "responses", `"` + strings.Repeat("x", usage.MaxPayload) + `"`, usage.ErrTooLarge},
		"gemini cached":       {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":11}}`, usage.ErrNegative},
		"details wrap around": {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":10,"promptTokensDetails":[` +
			strings.Repeat(`{"modality":"AUDIO","tokenCount":9007199254740991},`, 2048) + `{}]}}`, usage.ErrNegative},
		"agent span":       {"otel", "span invoke_agent", `{"attributes":{"gen_ai.operation.name":"invoke_agent","gen_ai.usage.input_tokens":5}}`, usage.ErrAggregate},
		"negative seconds": {"openai", "audio.transcriptions", `{"usage":{"type":"duration","seconds":-3}}`, usage.ErrNegative},
	} {
		if _, err := usage.Normalise(c.provider, c.api, []byte(c.raw)); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

func TestMissingIsNotZero(t *testing.T) {
	for api, provider := range map[string]string{"chat.completions": "openai", "responses": "openai", "embeddings": "openai",
		"images.generate": "openai", "messages": "anthropic", "messages.batches": "anthropic", "generateContent": "gcp.gemini",
		"Converse": "aws.bedrock", "v2/chat": "cohere", "span chat": "otel"} {
		for _, raw := range []string{`{}`, `{"usage":null}`, `{"usage":{}}`, `{"stream":[]}`, `{"id":"x","stream":[{}]}`} {
			u, err := usage.Normalise(provider, api, []byte(raw))
			if err != nil || !u.Missing() || len(u.Meters) != 0 || u.ContextTokens != nil {
				t.Errorf("%s %s: %+v, %v", api, raw, u, err)
			}
		}
	}
	for _, provider := range []string{"Perplexity", " GCP.gemini"} { // with an api that several providers have, in ways of their own
		raw := []byte(`{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":20}}`)
		got, err := usage.Normalise(provider, "chat.completions", raw)
		want, err2 := usage.Normalise(usage.ProviderName(provider), "chat.completions", raw)
		if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v, want %+v %v", provider, got, err, want, err2)
		}
	}
	u, err := usage.Normalise("openai", "responses", []byte(`{"usage":{"input_tokens":0,"output_tokens":0}}`))
	if err != nil || u.Missing() || u.ContextTokens == nil {
		t.Errorf("stated zeros are usage: %+v, %v", u, err)
	}
}

// Each case: a payload and the meters as JSON.
func TestShapes(t *testing.T) {
	for name, c := range map[string]struct{ provider, api, raw, want string }{
		"responses stream": {"openai", "responses",
			`{"stream":[{"type":"response.created","response":{"id":"r","usage":null}},{"type":"response.completed","response":{"id":"r","service_tier":"flex","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"output_tokens":3,"total_tokens":13}}}]}`,
			`{"input_tokens":4,"input_cache_read_tokens":4,"input_cache_write_tokens":2,"output_tokens":3}`},
		"choices null": {"vllm", "chat.completions", `{"stream":[{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}]}`,
			`{"input_tokens":1,"output_tokens":2}`},
		"batch line": {"openai", "batches", `{"custom_id":"a","response":{"status_code":200,"body":{"id":"c","usage":{"prompt_tokens":1,"completion_tokens":2}}}}`,
			`{"input_tokens":1,"output_tokens":2}`},
		"rejected predictions": {"openai", "chat.completions", `{"usage":{"prompt_tokens":5,"completion_tokens":30,"completion_tokens_details":{"rejected_prediction_tokens":20}}}`,
			`{"input_tokens":5,"output_tokens":30}`},
		"transcription tokens": {"openai", "audio.transcriptions", `{"usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":2,"audio_tokens":12},"output_tokens":45,"total_tokens":59}}`,
			`{"input_tokens":2,"input_audio_tokens":12,"output_tokens":45}`},
		"fractional seconds": {"openai", "audio.transcriptions", `{"usage":{"type":"duration","seconds":8.47}}`, `{"audio_seconds":8.47}`},
		"cached audio": {"openai", "chat.completions", `{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"audio_tokens":60,"cached_tokens":50,"cached_tokens_details":{"audio_tokens":30}},"completion_tokens":0}}`,
			`{"input_tokens":20,"input_cache_read_tokens":20,"input_audio_tokens":30,"input_audio_cache_read_tokens":30}`},
		"xai reasoning outside": {"x_ai", "chat.completions", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}}`,
			`{"input_tokens":10,"output_tokens":5,"output_reasoning_tokens":20}`},
		"deepseek hit": {"deepseek", "chat.completions", `{"usage":{"prompt_tokens":10,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4,"completion_tokens":1}}`,
			`{"input_tokens":4,"input_cache_read_tokens":6,"output_tokens":1}`},
		"mistral audio": {"mistral_ai", "chat.completions", `{"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_audio_seconds":7}}`,
			`{"input_tokens":10,"output_tokens":1,"audio_seconds":7}`},
		"mistral audio unset": {"mistral_ai", "chat.completions", `{"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_audio_seconds":{}}}`,
			`{"input_tokens":10,"output_tokens":1}`},
		"gemini compat gap": {"gcp.gemini", "chat.completions", `{"usage":{"prompt_tokens":758,"completion_tokens":102,"total_tokens":1725}}`,
			`{"input_tokens":758,"output_tokens":102,"output_reasoning_tokens":865}`},
		"gemini tool use": {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":100,"toolUsePromptTokenCount":40,"candidatesTokenCount":30,"thoughtsTokenCount":20,"totalTokenCount":170}}`,
			`{"input_tokens":140,"output_tokens":10,"output_reasoning_tokens":20}`},
		"gemini report 86a": {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":150,"thoughtsTokenCount":8000,"totalTokenCount":8160}}`,
			`{"input_tokens":10,"output_tokens":150,"output_reasoning_tokens":8000}`},
		"gemini report 86b": {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":264,"candidatesTokenCount":104,"thoughtsTokenCount":989}}`,
			`{"input_tokens":264,"output_tokens":104,"output_reasoning_tokens":989}`},
		"gemini cached image": {"gcp.gemini", "generateContent", `{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":50,"promptTokensDetails":[{"modality":"TEXT","tokenCount":40},{"modality":"IMAGE","tokenCount":60}],"cacheTokensDetails":[{"modality":"IMAGE","tokenCount":50}]}}`,
			`{"input_tokens":40,"input_image_tokens":10,"input_cache_read_tokens":50}`},
		"gemini stream": {"gcp.gemini", "streamGenerateContent", `{"stream":[{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}},{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":9}}]}`,
			`{"input_tokens":5,"output_tokens":9}`},
		"anthropic web search": {"anthropic", "messages", `{"usage":{"input_tokens":5,"output_tokens":1,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":2}}}`,
			`{"input_tokens":5,"output_tokens":1,"web_search_requests":3}`},
		"anthropic partial split": {"anthropic", "messages", `{"usage":{"input_tokens":5,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":60},"output_tokens":1}}`,
			`{"input_tokens":5,"input_cache_write_5m_tokens":40,"input_cache_write_1h_tokens":60,"output_tokens":1}`},
		"anthropic on bedrock": {"aws.bedrock", "messages", `{"usage":{"input_tokens":5,"output_tokens":1}}`, `{"input_tokens":5,"output_tokens":1}`},
		"converse stream": {"aws.bedrock", "ConverseStream", `{"stream":[{"messageStart":{}},{"metadata":{"usage":{"inputTokens":5,"outputTokens":6,"totalTokens":11}}}]}`,
			`{"input_tokens":5,"output_tokens":6}`},
		"cohere rerank": {"cohere", "v2/rerank", `{"meta":{"billed_units":{"search_units":1.0}}}`, `{"search_units":1}`},
		"image details": {"openai", "images.generate", `{"usage":{"input_tokens":4,"output_tokens":10,"output_tokens_details":{"image_tokens":8,"text_tokens":2}}}`,
			`{"input_tokens":4,"output_image_tokens":8,"output_tokens":2}`},
		"old span names": {"otel", "span", `{"attributes":{"gen_ai.system":"openai","gen_ai.usage.prompt_tokens":"857","gen_ai.usage.completion_tokens":"143","gen_ai.usage.cache_creation_input_tokens":100}}`,
			`{"input_tokens":757,"input_cache_write_tokens":100,"output_tokens":143}`},
	} {
		var numbers map[string]json.Number
		if err := json.Unmarshal([]byte(c.want), &numbers); err != nil {
			t.Fatal(err)
		}
		want, err := usage.ParseMeters(numbers)
		if err != nil {
			t.Fatal(err)
		}
		got, err := usage.Normalise(c.provider, c.api, []byte(c.raw))
		if err != nil || !sameMeters(got.Meters, want) {
			t.Errorf("%s: %v, %v; want %v", name, got.Meters, err, want)
		}
		check(t, got)
	}
}

func TestLabels(t *testing.T) {
	u, err := usage.Normalise("anthropic", "messages", []byte(`{"id":"msg_1","model":"claude-opus-5","usage":{"input_tokens":1,"output_tokens":1,"inference_geo":"us","speed":"fast","service_tier":"priority"}}`))
	if err != nil || u.ResponseID != "msg_1" || u.Model != "claude-opus-5" || u.InferenceGeo != "us" || u.Speed != "fast" || u.ServiceTier != "priority" {
		t.Errorf("%+v, %v", u, err)
	}
	u, err = usage.Normalise("openai", "batches", []byte(`{"response":{"body":{"id":"c","model":"gpt-5","usage":{"prompt_tokens":1}}}}`))
	if err != nil || !u.Batch || u.ServiceTier != "batch" || u.ResponseID != "c" || u.Model != "gpt-5" {
		t.Errorf("%+v, %v", u, err)
	}
	if u.InputTokens() != 1 || u.OutputTokens() != 0 {
		t.Errorf("sums %d, %d", u.InputTokens(), u.OutputTokens())
	}
}

// Whatever parts a provider states inside its totals, the meters add up to
// the totals: no token is lost and none is in two meters.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, upTo int64) int64 { return rapid.Int64Range(0, upTo).Draw(t, name) }
		total, out := n("prompt", 1<<40), n("completion", 1<<40)
		cached := n("cached", total)
		written := n("written", total-cached)
		audio := n("audio", total)
		image := n("image", total-audio)
		cachedAudio := n("cached audio", min(audio, cached))
		reasoning := n("reasoning", out)
		raw := fmt.Sprintf(`{"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d,
			"audio_tokens":%d,"image_tokens":%d,"cached_tokens_details":{"audio_tokens":%d}},"completion_tokens_details":{"reasoning_tokens":%d}}}`,
			total, out, cached, written, audio, image, cachedAudio, reasoning)
		u, err := usage.Normalise("openai", "chat.completions", []byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if u.InputTokens() != total || u.OutputTokens() != out || *u.ContextTokens != total {
			t.Fatalf("%s gives %v", raw, u.Meters)
		}
		hits, _ := u.Meters[usage.CacheRead].Add(u.Meters[usage.AudioCacheRead]).Int64()
		if hits != cached {
			t.Fatalf("%s gives %v", raw, u.Meters)
		}
	})
}

func TestParseMeters(t *testing.T) {
	for name, c := range map[string]struct {
		in   map[string]json.Number
		want error
	}{
		"unknown":      {map[string]json.Number{"tokens": "1"}, usage.ErrUnknownMeter},
		"negative":     {map[string]json.Number{"input_tokens": "-1"}, usage.ErrNegative},
		"not whole":    {map[string]json.Number{"input_tokens": "1.5"}, usage.ErrMalformed},
		"not a number": {map[string]json.Number{"input_tokens": "many"}, usage.ErrMalformed},
		"2^53":         {map[string]json.Number{"input_tokens": "9007199254740992"}, usage.ErrTooLarge},
		"sum of input": {map[string]json.Number{"input_tokens": "9007199254740991", "input_audio_tokens": "1"}, usage.ErrTooLarge},
		"too fine":     {map[string]json.Number{"audio_seconds": "0.0000000001"}, usage.ErrTooLarge},
		"fine":         {map[string]json.Number{"audio_seconds": "0.5", "input_tokens": "1e3", "output_tokens": "0"}, nil},
	} {
		m, err := usage.ParseMeters(c.in)
		if !errors.Is(err, c.want) || c.want == nil && len(m) != 2 {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	m, _ := usage.ParseMeters(map[string]json.Number{"input_tokens": "5", "input_cache_read_tokens": "7", "output_tokens": "1"})
	if u := usage.FromMeters(m); u.ContextTokens == nil || *u.ContextTokens != 12 || u.OutputTokens() != 1 {
		t.Errorf("%+v", u)
	}
	m, _ = usage.ParseMeters(map[string]json.Number{"audio_seconds": "5"})
	if u := usage.FromMeters(m); u.ContextTokens != nil {
		t.Errorf("%+v", u)
	}
}
