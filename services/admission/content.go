package admission

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"

	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/usageevent"
)

// passable is the provider's object as the event carries it, if that says the same as the whole. The usual one is all usage,
// so nothing but its order can change: that is said by whole, which has the same bytes then.
func passable(req *settleRequest, u *usage.Usage, provider string) (bare json.RawMessage, whole usageevent.Ordered, ok bool) {
	if whole, ok = req.ordered, true; whole.Bytes() == nil {
		whole, ok = usageevent.Order(req.Usage, isUsage)
	}
	if ok {
		return whole.Bytes(), whole, len(whole.Bytes()) <= maxRawUsage
	}
	bare = usageevent.Canonical(withoutContent(req.Usage))
	again, err := usage.Normalise(provider, req.API, bare)
	return bare, whole, err == nil && len(bare) <= maxRawUsage && reflect.DeepEqual(again, *u)
}

// isContent names the members of providers' responses that carry text.
func isContent(member string) bool { return !isUsage([]byte(member)) }

// isUsage names all others.
func isUsage(member []byte) bool {
	switch string(member) {
	case "choices", "candidates", "content", "contents", "output", "output_text", "message", "messages", "input", "prompt", "instructions", "text",
		"data", "stream", "results", "embeddings", "citations", "search_results", "delta", "error", "metadata", "tools":
		return false
	default:
		return true
	}
}

// mayHaveContent reports whether one of them can be in raw: it is written in it, or could be by an escape.
func mayHaveContent(raw []byte) bool {
	for rest := raw; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			return bytes.IndexByte(raw, '\\') >= 0
		}
		rest = rest[at+1:]
		if end := bytes.IndexByte(rest, '"'); end >= 0 && isContent(string(rest[:end])) {
			return true
		}
	}
}

// withoutContent drops the members of a provider's response that carry text. A bare usage object has none of them.
func withoutContent(raw json.RawMessage) json.RawMessage {
	if !mayHaveContent(raw) {
		return raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	before := len(members)
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return isContent(name) })
	if len(members) == before {
		return raw
	}
	bare, err := json.Marshal(members)
	if err != nil {
		return raw
	}
	return bare
}
