package usage

import "bytes"

// A provider's object has members that nobody bills by, and gets new ones; so a member that is not known is no error. But a
// whole number of tokens under a name that the api does not have, say a misspelt one, is usage that is not charged, or not
// at its rate: that is flagged.

// names says which names an api has, lower case: those that may count tokens, and those whose objects only inform.
type names struct{ counts, informs func(name []byte) bool }

func none([]byte) bool { return false }

func openAINames() names {
	return names{counts: func(name []byte) bool {
		switch string(name) {
		case "prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens", "prompt_tokens_details", "input_tokens_details",
			"input_token_details", "completion_tokens_details", "output_tokens_details", "cached_tokens", "cached_tokens_details", "cache_write_tokens",
			"audio_tokens", "image_tokens", "text_tokens", "video_tokens", "reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens",
			"prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "citation_tokens":
			return true
		}
		return false
	}, informs: none}
}

func anthropicNames() names {
	return names{counts: func(name []byte) bool {
		switch string(name) {
		case "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens":
			return true
		}
		return false
	}, informs: func(name []byte) bool { return string(name) == "output_tokens_details" }}
}

func geminiNames() names {
	return names{counts: func(name []byte) bool {
		switch string(name) {
		case "prompttokencount", "cachedcontenttokencount", "candidatestokencount", "responsetokencount", "thoughtstokencount", "tooluseprompttokencount",
			"totaltokencount", "prompttokensdetails", "cachetokensdetails", "tooluseprompttokensdetails", "candidatestokensdetails", "responsetokensdetails", "tokencount":
			return true
		}
		return false
	}, informs: none}
}

func bedrockNames() names {
	return names{counts: func(name []byte) bool {
		switch string(name) {
		case "inputtokens", "outputtokens", "totaltokens", "cachereadinputtokens", "cachewriteinputtokens":
			return true
		}
		return false
	}, informs: none}
}

func cohereNames() names {
	return names{counts: func(name []byte) bool { return string(name) == "input_tokens" || string(name) == "output_tokens" },
		informs: func(name []byte) bool { return string(name) == "tokens" || string(name) == "cached_tokens" }}
}

// strangers reports whether a payload counts tokens under a name that is not among those of its api.
func strangers(raw []byte, known names) bool {
	w := walker{text: raw, known: known}
	w.value(body)
	return w.inner || w.outer && !w.wrapped
}

// place is where in a payload something stands.
type place int

const (
	aside place = iota // where no usage is
	body               // a response or part of one, or a bare usage object
	inner              // a usage object, or part of one
)

// walker goes through JSON that was found valid, once.
type walker struct {
	text  []byte
	at    int
	known names
	// inner: a usage object has a stranger. outer: a body has, which counts if that is a bare usage object: no usage was wrapped.
	inner, outer, wrapped bool
}

func (w *walker) value(in place) {
	switch w.space(); w.here() {
	case '{':
		for w.at++; w.more('}'); {
			name := w.string()
			w.space()
			w.at++ // the colon
			w.member(name, in)
		}
	case '[':
		for w.at++; w.more(']'); {
			w.value(in)
		}
	case '"':
		w.string()
	default:
		for c := w.here(); c > ' ' && c != ',' && c != ']' && c != '}'; c = w.here() {
			w.at++
		}
	}
}

// member passes the value of a member, and looks into it where usage may be.
func (w *walker) member(name []byte, in place) {
	name = lower(name)
	switch string(name) {
	case "usage", "usagemetadata", "meta":
		w.wrapped = true
		w.value(inner)
		return
	case "message", "response", "body", "result", "metadata", "delta", "stream", "billed_units", "cache_creation", "iterations", "cachedetails":
		w.value(in)
		return
	}
	tokens := countsTokens(name)
	if w.known.informs(name) || in == body && !tokens {
		in = aside
	}
	w.space()
	from := w.at
	w.value(in)
	if in != aside && tokens && !w.known.counts(name) && positive(w.text[from:w.at]) {
		w.inner, w.outer = w.inner || in == inner, true
	}
}

// countsTokens reports whether a name, in lower case, is one of something that counts tokens.
func countsTokens(name []byte) bool { return bytes.Contains(name, []byte("token")) }

// lower is a name in lower case, as encoding/json finds members by it.
func lower(name []byte) []byte {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			return bytes.ToLower(name)
		}
	}
	return name
}

// positive reports whether a JSON value is a whole number above zero.
func positive(value []byte) bool {
	zero := true
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		zero = zero && c == '0'
	}
	return !zero
}

func (w *walker) space() {
	for w.at < len(w.text) && (w.text[w.at] == ' ' || w.text[w.at] == '\n' || w.text[w.at] == '\t' || w.text[w.at] == '\r') {
		w.at++
	}
}

// here is the byte at hand, 0 at the end.
func (w *walker) here() byte {
	if w.at >= len(w.text) {
		return 0
	}
	return w.text[w.at]
}

// more passes a comma, or the end of an array or object: then it is false.
func (w *walker) more(end byte) bool {
	w.space()
	if w.here() == ',' {
		w.at++
		w.space()
	}
	if c := w.here(); c == end || c == 0 {
		w.at++
		return false
	}
	return true
}

// string passes a string and returns what is between its quotes, as it is written.
func (w *walker) string() []byte {
	from := w.at + 1
	for w.at++; w.at < len(w.text) && w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			w.at++
		}
	}
	to := min(w.at, len(w.text))
	w.at++
	return w.text[min(from, to):to]
}
