package litellm

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// field is a price field taken apart.
type field struct {
	base  string
	above int64  // tokens; 0 none
	tier  string // "" standard
}

// splitField applies the suffix grammar; the tier stands after the threshold.
func splitField(name string) field {
	f := field{base: name}
	for _, t := range [...]struct{ suffix, tier string }{
		{"_flex", pricing.TierFlex}, {"_priority", pricing.TierPriority}, {"_batches", pricing.TierBatch}, {"_ultrafast", "ultrafast"},
	} {
		if base, ok := strings.CutSuffix(f.base, t.suffix); ok {
			f.base, f.tier = base, t.tier
			break
		}
	}
	const above, unit = "_above_", "k_tokens"
	if head, ok := strings.CutSuffix(f.base, unit); ok {
		if at := strings.LastIndex(head, above); at >= 0 {
			if n, err := strconv.ParseInt(head[at+len(above):], 10, 32); err == nil && n > 0 {
				f.base, f.above = head[:at], n*1000
			}
		}
	}
	return f
}

// perUnit is the meter that a base field prices; "" if it is not one that has
// the same meaning in every row. thousand says that the price is for 1,000.
func perUnit(base string) (m usage.Meter, thousand bool) {
	switch base {
	case "input_cost_per_token":
		return usage.Input, false
	case "output_cost_per_token":
		return usage.Output, false
	case "output_cost_per_reasoning_token":
		return usage.Reasoning, false
	case "cache_read_input_token_cost":
		return usage.CacheRead, false
	case "cache_creation_input_token_cost":
		return usage.CacheWrite, false
	case "cache_creation_input_token_cost_above_1hr":
		return usage.CacheWrite1h, false
	case "cache_read_input_audio_token_cost":
		return usage.AudioCacheRead, false
	case "input_cost_per_audio_token":
		return usage.InputAudio, false
	case "output_cost_per_audio_token":
		return usage.OutputAudio, false
	case "input_cost_per_image_token":
		return usage.InputImage, false
	case "output_cost_per_image_token":
		return usage.OutputImage, false
	case "input_cost_per_video_token":
		return usage.InputVideo, false
	case "output_cost_per_video_token":
		return usage.OutputVideo, false
	case "citation_cost_per_token":
		return usage.Citation, false
	}
	return perThing(base)
}

func perThing(base string) (m usage.Meter, thousand bool) {
	switch base {
	case "output_cost_per_image":
		return usage.OutputImages, false
	case "input_cost_per_character":
		return usage.InputChars, false
	case "output_cost_per_character":
		return usage.OutputChars, false
	case "input_cost_per_query":
		return usage.SearchUnits, false
	case "input_cost_per_request":
		return usage.Requests, false
	case "input_cost_per_audio_per_second":
		return usage.AudioSeconds, false
	case "input_cost_per_video_per_second":
		return usage.InputVideoSeconds, false
	case "output_cost_per_video_per_second":
		return usage.VideoSeconds, false
	case "output_cost_per_second_1080p":
		return usage.VideoSeconds1080p, false
	case "code_interpreter_cost_per_session":
		return usage.CodeSessions, false
	case "ocr_cost_per_page":
		return usage.OCRPages, false
	case "annotation_cost_per_page":
		return usage.AnnotationPages, false
	case "ocr_cost_per_credit":
		return usage.OCRCredits, false
	case "file_search_cost_per_1k_calls":
		return usage.FileSearches, true
	case "file_search_cost_per_gb_per_day":
		return usage.FileSearchGBDays, false
	case "vector_store_cost_per_gb_per_day":
		return usage.VectorStoreGBDays, false
	case "computer_use_input_cost_per_1k_tokens":
		return usage.ComputerUseInput, true
	case "computer_use_output_cost_per_1k_tokens":
		return usage.ComputerUseOutput, true
	}
	return "", false
}

// multiplier is the name of a factor on all token rates; "" if it is none.
func multiplier(name string) string {
	switch name {
	case "regional_processing_uplift_multiplier_eu":
		return "region:eu"
	case "regional_processing_uplift_multiplier_us":
		return "region:us"
	case "regional_endpoint_uplift_multiplier":
		return "region:endpoint"
	}
	return ""
}

// describes reports whether a field is known to say nothing about prices.
func describes(name string) bool {
	for _, word := range [...]string{"cost", "price", "pricing", "multiplier", "uplift", "billing", "discount"} {
		if strings.Contains(name, word) {
			return false
		}
	}
	for _, prefix := range [...]string{"supports_", "supported_", "max_", "min_", "default_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "source", "metadata", "comment", "deprecation_date", "output_vector_size", "rpm", "tpm", "rpd", "tpd", "tool_use_system_prompt_tokens",
		"display_name", "use_in_anthropic", "bedrock_invocation_schema", "uses_embed_content", "litellm_params", "model_vendor", "model_version":
		return true
	}
	return false
}
