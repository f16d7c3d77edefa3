package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Bounds of a payload.
const (
	MaxPayload = 8 << 20 // bytes; a caller with larger answers sends the usage object alone
	MaxChunks  = 100_000 // elements of "stream"
)

// parser fills u from raw and reports whether the call's prompt is counted in
// tokens (so that there are ContextTokens).
type parser func(u *reading, raw []byte) (counted bool, err error)

// reading is a usage that is being read.
type reading struct {
	Usage
	// allRead: whatever counts tokens was read by its name, so nothing is a
	// stranger. false says nothing.
	allRead bool
}

// dialect is how an api reports usage. A span has no names of its own.
type dialect struct {
	parse parser
	names func() names // nil: what it does not know is not looked for
}

// Normalise turns what a provider returned into disjoint meters. raw is the
// whole response object, or its bare usage object, or {"stream": [chunk, …]}
// with the chunks as received. provider has the OpenTelemetry name (in
// any case: ProviderName), api is
// one of the names of the switch below; "" is the provider's usual api.
//
// A payload without usage gives the flag usage_missing and no meters. Errors
// wrap ErrUnknownAPI, ErrMalformed, ErrNegative, ErrTooLarge or ErrAggregate.
func Normalise(provider, api string, raw []byte) (Usage, error) {
	provider = ProviderName(provider)
	u := reading{Usage: Usage{Provider: provider, Meters: Meters{}}}
	of := choose(provider, api)
	if of.parse == nil {
		return Usage{}, fmt.Errorf("%w: provider %.64q, api %.64q", ErrUnknownAPI, provider, api)
	}
	if len(raw) > MaxPayload {
		return Usage{}, fmt.Errorf("%w: payload of %d bytes", ErrTooLarge, len(raw))
	}
	counted, err := of.parse(&u, raw)
	if err != nil {
		return Usage{}, fmt.Errorf("%s: %w", strings.TrimSpace(provider+" "+api), err)
	}
	u.setTier(api)
	if u.Missing() {
		return u.Usage, nil
	}
	if of.names != nil && !u.allRead && strangers(raw, of.names()) {
		u.flag(FlagUnknown)
	}
	in, out := u.Tokens()
	if counted {
		u.ContextTokens = &in
	}
	if in > maxQuantity || out > maxQuantity {
		return Usage{}, fmt.Errorf("%s: %w: sum of tokens", strings.TrimSpace(provider+" "+api), ErrTooLarge)
	}
	return u.Usage, nil
}

func choose(provider, api string) dialect {
	switch api {
	case "":
		return usual(provider)
	case "chat.completions":
		switch provider {
		case "perplexity":
			return dialect{parsePerplexity, openAINames}
		case "gcp.gemini", "gcp.vertex_ai", "gcp.gen_ai", "gemini", "vertex_ai":
			return dialect{parseGeminiCompat, openAINames}
		}
		return dialect{parseOpenAI, openAINames}
	case "completions", "responses", "embeddings", "audio.transcriptions", "audio.translations", "batches":
		return dialect{parseOpenAI, openAINames}
	case "images.generate", "images.edit":
		return dialect{parseOpenAIImages, openAINames}
	case "messages", "messages.batches":
		return dialect{parseAnthropic, anthropicNames}
	case "generateContent", "streamGenerateContent":
		return dialect{parseGemini, geminiNames}
	case "Converse", "ConverseStream":
		return dialect{parseBedrock, bedrockNames}
	case "v2/chat", "v2/rerank", "v2/embed", "v1/chat", "v1/rerank", "v1/embed":
		return dialect{parseCohere, cohereNames}
	}
	if provider == "otel" && strings.HasPrefix(api, "span") {
		return dialect{parse: parseSpan}
	}
	return dialect{}
}

// usual is the dialect of a call whose api is not named.
func usual(provider string) dialect {
	switch provider {
	case "openai", "azure.ai.openai", "azure.ai.inference", "azure", "mistral_ai", "mistral", "vllm", "ollama",
		"groq", "deepseek", "x_ai", "xai", "moonshot_ai":
		return dialect{parseOpenAI, openAINames}
	case "perplexity":
		return dialect{parsePerplexity, openAINames}
	case "anthropic":
		return dialect{parseAnthropic, anthropicNames}
	case "gcp.gemini", "gcp.vertex_ai", "gcp.gen_ai", "gemini", "vertex_ai":
		return dialect{parseGemini, geminiNames}
	case "aws.bedrock", "bedrock":
		return dialect{parseBedrock, bedrockNames}
	case "cohere":
		return dialect{parseCohere, cohereNames}
	case "otel":
		return dialect{parse: parseSpan}
	}
	return dialect{}
}

// setTier settles tier and batch, which say the same thing for batch jobs.
func (u *Usage) setTier(api string) {
	u.ServiceTier = tier(u.ServiceTier)
	u.Batch = u.Batch || u.ServiceTier == tierBatch || api == "messages.batches" || api == "batches"
	if u.Batch {
		u.ServiceTier = tierBatch
	}
}

// tier gives the provider's words for one service tier one name. "auto" is
// what was asked for, not what was used, so it reports nothing.
func tier(reported string) string {
	switch t := strings.ToLower(reported); t {
	case "", "auto":
		return ""
	case "default", "on_demand", "standard_only":
		return TierStandard
	case "batches":
		return tierBatch
	default:
		return t
	}
}

// decode reads one JSON object into v; fields it does not know are ignored.
func decode(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if err == nil || errors.Is(err, ErrNegative) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed) {
		return err
	}
	return told(err)
}

// told says what is wrong with a payload in its own words: no name of a Go type means anything to its sender.
func told(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return fmt.Errorf("%w: not valid JSON", ErrMalformed)
	}
	field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] // the path has names of Go's embedded types in it
	want, what := "an object", wrong.Value
	if wrong.Type == reflect.TypeFor[count]() {
		if what = kindOf(what); what == "number" {
			_, why := parseCount(wrong.Value) // failed once, fails again
			return fmt.Errorf("%s: %w", field, why)
		}
		want = "a whole number"
	}
	switch wrong.Type.Kind() {
	case reflect.String:
		want = "a string"
		if wrong.Type == reflect.TypeFor[json.Number]() {
			want = "a number"
		}
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "an array"
	case reflect.Int, reflect.Int64, reflect.Float64:
		want = "a number"
	}
	if field == "" {
		field = "the usage"
	}
	what, _, _ = strings.Cut(what, " ") // "number 12" where it is a number
	return fmt.Errorf("%w: %s is %s, not %s", ErrMalformed, field, a(what), want)
}

// kindOf is the kind of a JSON value.
func kindOf(value string) string {
	switch value[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return "number"
}

// a is a JSON kind with its article.
func a(kind string) string {
	switch kind {
	case "object", "array":
		return "an " + kind
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

// fits checks the bound of a stream.
func fits(stream []json.RawMessage) error {
	if len(stream) > MaxChunks {
		return fmt.Errorf("%w: %d chunks", ErrTooLarge, len(stream))
	}
	return nil
}
