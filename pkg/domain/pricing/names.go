package pricing

import (
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/usage"
)

// BookNames are the names under which the book may list a provider.
func BookNames(provider string) []string { return bookNames(nil, provider) }

// maxNames is the most names that a provider has.
const maxNames = 9

// bookNames maps the provider name of an event (OpenTelemetry's) to the names
// under which a price source may list it, in the order of search. A name that
// is not here is the source's own; where that has upper case, it is found by
// the same spelling. They are appended to room.
func bookNames(room []string, provider string) []string {
	said := provider
	switch provider = usage.ProviderName(said); provider {
	case "azure.ai.openai", "azure":
		return append(room, "azure", "azure_ai")
	case "azure.ai.inference":
		return append(room, "azure_ai", "azure")
	case "gcp.gemini":
		return append(room, "gemini")
	case "gcp.vertex_ai", "vertex_ai":
		return append(room, "vertex_ai-language-models", "vertex_ai", "vertex_ai-anthropic_models", "vertex_ai-mistral_models",
			"vertex_ai-llama_models", "vertex_ai-embedding-models", "vertex_ai-image-models", "vertex_ai-video-models", "gemini")
	case "gcp.gen_ai":
		return append(room, "gemini", "vertex_ai-language-models", "vertex_ai")
	case "aws.bedrock", "bedrock":
		return append(room, "bedrock_converse", "bedrock")
	case "mistral_ai":
		return append(room, "mistral")
	case "cohere":
		return append(room, "cohere_chat", "cohere")
	case "x_ai":
		return append(room, "xai")
	case "moonshot_ai":
		return append(room, "moonshot")
	case "ibm.watsonx.ai":
		return append(room, "watsonx")
	case "vllm":
		return append(room, "hosted_vllm", "vllm")
	case "openai":
		return append(room, "openai", "text-completion-openai")
	}
	if said != provider {
		room = append(room, said)
	}
	return append(room, provider)
}

// keyPrefix is what the source writes before a model's name in its keys
// ("gemini/gemini-2.5-flash"), where it writes anything.
func keyPrefix(provider string) string {
	switch provider {
	case "bedrock_converse":
		provider = "bedrock"
	case "cohere_chat":
		provider = "cohere"
	}
	family, _, _ := strings.Cut(provider, "-")
	return family + "/"
}

// withoutDate drops a date at the end of a model's name, the only alias rule:
// -2025-08-07, -20250929, @20250929, -2025-08 and -08-2025. A number that is
// no date of this century stays.
func withoutDate(model string) (string, bool) {
	for _, layout := range [...]string{"-2006-01-02", "-20060102", "@20060102", "-2006-01", "-01-2006"} {
		cut := len(model) - len(layout)
		if cut <= 0 || model[cut] != layout[0] {
			continue
		}
		if date, err := time.Parse(layout, model[cut:]); err == nil && date.Year()/100 == 20 {
			return model[:cut], true
		}
	}
	return model, false
}
