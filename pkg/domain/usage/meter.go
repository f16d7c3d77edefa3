package usage

import "strings"

// Meter names one kind of thing that is counted and priced on its own.
type Meter string

// The meters. Tokens unless the name says otherwise.
const (
	Input           Meter = "input_tokens" // text, neither read from nor written to a cache
	CacheRead       Meter = "input_cache_read_tokens"
	CacheWrite      Meter = "input_cache_write_tokens" // provider has no idea of a time to live
	CacheWrite5m    Meter = "input_cache_write_5m_tokens"
	CacheWrite1h    Meter = "input_cache_write_1h_tokens"
	InputAudio      Meter = "input_audio_tokens"
	AudioCacheRead  Meter = "input_audio_cache_read_tokens"
	AudioCacheWrite Meter = "input_audio_cache_write_tokens"
	InputImage      Meter = "input_image_tokens"
	InputVideo      Meter = "input_video_tokens"
	Output          Meter = "output_tokens" // text, reasoning excluded
	Reasoning       Meter = "output_reasoning_tokens"
	OutputAudio     Meter = "output_audio_tokens"
	OutputImage     Meter = "output_image_tokens"
	OutputVideo     Meter = "output_video_tokens"

	Citation          Meter = "citation_tokens"           // outside prompt and completion
	ComputerUseInput  Meter = "computer_use_input_tokens" // idem
	ComputerUseOutput Meter = "computer_use_output_tokens"

	Requests        Meter = "requests"
	WebSearch       Meter = "web_search_requests"      // search context of medium size
	WebSearchLow    Meter = "web_search_requests_low"  // of low size
	WebSearchHigh   Meter = "web_search_requests_high" // of high size
	SearchUnits     Meter = "search_units"             // a rerank or search query
	Classifications Meter = "classifications"
	InputImages     Meter = "input_images"
	OutputImages    Meter = "output_images"
	InputPixels     Meter = "input_pixels"
	OutputPixels    Meter = "output_pixels"
	InputChars      Meter = "input_characters"
	OutputChars     Meter = "output_characters"
	OCRPages        Meter = "ocr_pages"
	AnnotationPages Meter = "annotation_pages"
	CodeSessions    Meter = "code_interpreter_sessions"
	FileSearches    Meter = "file_search_calls"

	AudioSeconds       Meter = "audio_seconds" // heard: transcription, embedding
	OutputAudioSeconds Meter = "output_audio_seconds"
	InputVideoSeconds  Meter = "input_video_seconds"
	VideoSeconds       Meter = "output_video_seconds"
	VideoSeconds1080p  Meter = "output_video_seconds_1080p"
	InputSeconds       Meter = "input_compute_seconds" // time on a rented machine
	OutputSeconds      Meter = "output_compute_seconds"
	OCRCredits         Meter = "ocr_credits"
	FileSearchGBDays   Meter = "file_search_gb_days"
	VectorStoreGBDays  Meter = "vector_store_gb_days"
)

// Unit says what a quantity of a meter may be.
type Unit int

// The units. Unknown is that of a meter which does not exist.
const (
	Unknown Unit = iota
	Tokens       // whole
	Count        // whole
	Measure      // seconds, credits, gigabyte-days: at most 9 fractional digits
)

// Unit returns what m counts, Unknown if there is no such meter.
func (m Meter) Unit() Unit {
	switch m {
	case Input, CacheRead, CacheWrite, CacheWrite5m, CacheWrite1h, InputAudio, AudioCacheRead, AudioCacheWrite,
		InputImage, InputVideo, Output, Reasoning, OutputAudio, OutputImage, OutputVideo,
		Citation, ComputerUseInput, ComputerUseOutput:
		return Tokens
	case Requests, WebSearch, WebSearchLow, WebSearchHigh, SearchUnits, Classifications, InputImages, OutputImages,
		InputPixels, OutputPixels, InputChars, OutputChars, OCRPages, AnnotationPages, CodeSessions, FileSearches:
		return Count
	case AudioSeconds, OutputAudioSeconds, InputVideoSeconds, VideoSeconds, VideoSeconds1080p, InputSeconds,
		OutputSeconds, OCRCredits, FileSearchGBDays, VectorStoreGBDays:
		return Measure
	}
	return Unknown
}

// IsInput reports whether m is a part of the prompt.
func (m Meter) IsInput() bool { return isTokens(m, "input_") }

// IsOutput reports whether m is a part of the completion.
func (m Meter) IsOutput() bool { return isTokens(m, "output_") }

// IsProduct reports whether m is something that the call produced, in whatever unit it is counted. Work that was done
// whatever came of it (requests, searches, citations read) is none.
func (m Meter) IsProduct() bool {
	switch m {
	case Output, Reasoning, OutputAudio, OutputImage, OutputVideo, ComputerUseOutput,
		OutputImages, OutputPixels, OutputChars, OutputAudioSeconds, VideoSeconds, VideoSeconds1080p, OutputSeconds:
		return true
	}
	return false
}

func isTokens(m Meter, side string) bool {
	return strings.HasPrefix(string(m), side) && strings.HasSuffix(string(m), "_tokens")
}
