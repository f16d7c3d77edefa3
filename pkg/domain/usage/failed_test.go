package usage

import (
	"errors"
	"regexp"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
)

// A failed call settles no output cost: of every meter there is, the prompt and the work stay.
func TestFailed(t *testing.T) {
	m := Meters{}
	for _, meter := range []Meter{Input, CacheRead, CacheWrite1h, InputAudio, InputImages, ComputerUseInput, Requests, WebSearch, AudioSeconds, InputSeconds, Citation,
		Output, Reasoning, OutputAudio, OutputImage, OutputVideo, OutputImages, OutputPixels, OutputChars, OutputAudioSeconds, VideoSeconds, VideoSeconds1080p,
		OutputSeconds, ComputerUseOutput} {
		if meter.Unit() == Unknown {
			t.Fatalf("%s is no meter", meter)
		}
		m[meter] = money.NewDecimal(7)
	}
	whole := FromMeters(m)
	got := whole.Failed()
	if len(got.Meters) != 11 || got.OutputTokens() != 0 || got.InputTokens() != whole.InputTokens() || *got.ContextTokens != *whole.ContextTokens {
		t.Errorf("%v", got.Meters)
	}
	for kept := range got.Meters {
		if regexp.MustCompile("output").MatchString(string(kept)) {
			t.Errorf("%s stays", kept)
		}
	}
	if len(whole.Meters) != 24 {
		t.Error("the usage itself changed")
	}
	if only := FromMeters(Meters{Output: money.NewDecimal(1)}).Failed(); len(only.Meters) != 0 || only.Missing() {
		t.Errorf("output alone: %+v", only)
	}
}

// What is wrong with a payload is said in the payload's words: no name and no value of Go's.
func TestErrorsSpeakOfThePayload(t *testing.T) {
	leak := regexp.MustCompile(`Go |usage\.|json|struct|int64|:\+|total:|openAI|unmarshal|\*`)
	for raw, c := range map[string]struct {
		is   error
		want string
	}{
		`{"prompt_tokens":"12","completion_tokens":1}`: {ErrMalformed, `openai: malformed usage: prompt_tokens is a string, not a whole number`},
		`{"usage":{"prompt_tokens":true}}`:             {ErrMalformed, `openai: malformed usage: prompt_tokens is true or false, not a whole number`},
		`{"usage":{"prompt_tokens":1.5}}`:              {ErrMalformed, `openai: prompt_tokens: malformed usage: count 1.5 is not whole`},
		`{"usage":{"prompt_tokens":-1}}`:               {ErrNegative, `openai: prompt_tokens: negative usage: -1`},
		`{"prompt_tokens":1e30}`:                       {ErrTooLarge, ""},
		`"text"`:                                       {ErrMalformed, `openai: malformed usage: the usage is a string, not an object`},
		`{"usage":"text"}`:                             {ErrMalformed, `openai: malformed usage: usage is a string, not an object`},
		`{"usage":[1]}`:                                {ErrMalformed, `openai: malformed usage: usage is an array, not an object`},
		`{"stream":5}`:                                 {ErrMalformed, `openai: malformed usage: stream is a number, not an array`},
		`{`:                                            {ErrMalformed, `openai: malformed usage: not valid JSON`},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":50}}`: {ErrNegative,
			`openai: negative usage: parts of the prompt exceed it: 10 tokens in all, of which cached 50 (audio 0), written to the cache 0, audio 0, image 0, video 0`},
		`{"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":5}}`: {ErrNegative, ""},
	} {
		_, err := Normalise("openai", "", []byte(raw))
		if !errors.Is(err, c.is) || leak.MatchString(err.Error()) || c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", raw, err, c.want)
		}
	}
	for _, provider := range []string{"anthropic", "gcp.gemini", "aws.bedrock", "cohere", "perplexity", "otel"} {
		for _, raw := range []string{`"x"`, `{"usage":"x"}`, `{"usageMetadata":5}`, `{"usage":{"input_tokens":"1"}}`, `{"usageMetadata":{"promptTokenCount":"1"}}`,
			`{"usage":{"inputTokens":[1]}}`, `{"usage":{"billed_units":7}}`, `{"attributes":3}`, `[`} {
			if _, err := Normalise(provider, "", []byte(raw)); err != nil && leak.MatchString(err.Error()) {
				t.Errorf("%s %s: %v", provider, raw, err)
			}
		}
	}
}
