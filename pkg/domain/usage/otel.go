package usage

import (
	"encoding/json"
	"fmt"
	"strings"
)

// otelSpan is a span with its attributes as a flat map. Several generations
// of attribute names are in use; the first one present wins.
type otelSpan struct {
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// parseSpan reads gen_ai.usage.*, which is inclusive whatever the provider
// does: cache counts are parts of the input, reasoning is part of the output.
// The split of cache writes by time to live is lost in it.
func parseSpan(u *reading, raw []byte) (bool, error) {
	var s otelSpan
	if err := decode(raw, &s); err != nil {
		return false, err
	}
	if err := s.billable(); err != nil {
		return false, err
	}
	replace(&u.Provider, s.label("gen_ai.provider.name", "gen_ai.system"))
	replace(&u.Model, s.label("gen_ai.response.model", "gen_ai.request.model"))
	replace(&u.ResponseID, s.label("gen_ai.response.id"))
	replace(&u.ServiceTier, s.label("openai.response.service_tier", "gen_ai.openai.response.service_tier"))
	var in, out count
	var p prompt
	var c completion
	err := s.read(
		attr{&in.n, &in.set, []string{"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"}},
		attr{&out.n, &out.set, []string{"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"}},
		attr{&p.cached, nil, []string{"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.input_tokens.cached"}},
		attr{&p.written, nil, []string{"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
			"gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.input_tokens.cache_write"}},
		attr{&p.audio, nil, []string{"gen_ai.usage.audio.input_tokens"}},
		attr{&p.image, nil, []string{"gen_ai.usage.image.input_tokens"}},
		attr{&p.video, nil, []string{"gen_ai.usage.video.input_tokens"}},
		attr{&c.reasoning, nil, []string{"gen_ai.usage.reasoning.output_tokens"}},
		attr{&c.audio, nil, []string{"gen_ai.usage.audio.output_tokens"}},
	)
	if err != nil {
		return false, err
	}
	if !in.set && !out.set {
		u.flag(FlagMissing)
		return false, nil
	}
	writes := CacheWrite
	if p.written > 0 && hasTTL(u.Provider) {
		u.flag(FlagTTLUnknown)
		writes = CacheWrite5m
	}
	p.total, c.total = in.n, out.n
	if err := u.addPrompt(p, writes); err != nil {
		return false, err
	}
	return in.set, u.addCompletion(c)
}

// hasTTL reports whether a provider sells cache writes by time to live.
func hasTTL(provider string) bool { return provider == "anthropic" || provider == "aws.bedrock" }

// billable refuses spans that sum up other spans: billing both would count
// every call twice.
func (s *otelSpan) billable() error {
	switch op := s.label("gen_ai.operation.name"); op {
	case "invoke_agent", "invoke_workflow", "create_agent", "execute_tool", "plan":
		return fmt.Errorf("%w: operation %s", ErrAggregate, op)
	}
	return nil
}

func (s *otelSpan) label(names ...string) text {
	for _, name := range names {
		var t text
		if raw, ok := s.Attributes[name]; ok && json.Unmarshal(raw, &t) == nil && t != "" {
			return t
		}
	}
	return ""
}

// attr binds a count to the names it may have, newest first.
type attr struct {
	n     *int64
	found *bool // may be nil
	names []string
}

func (s *otelSpan) read(attrs ...attr) error {
	for _, a := range attrs {
		for _, name := range a.names {
			raw, ok := s.Attributes[name]
			if !ok || string(raw) == "null" {
				continue
			}
			n, err := parseCount(strings.Trim(string(raw), `"`)) // OTLP JSON quotes 64-bit integers
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			*a.n = n
			if a.found != nil {
				*a.found = true
			}
			break
		}
	}
	return nil
}
