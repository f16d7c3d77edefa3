package pricing_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

type sample struct {
	ID       string            `json:"id"`
	Provider string            `json:"provider"`
	API      string            `json:"api"`
	Model    string            `json:"model"`
	PriceKey string            `json:"price_key"`
	Batch    bool              `json:"batch"`
	Payload  json.RawMessage   `json:"payload"`
	Flags    []string          `json:"flags"`
	Cost     *money.USD        `json:"expected_cost_usd"`
	Lines    map[string]string `json:"expected_lines_usd"`
}

func samples(t testing.TB) []sample {
	t.Helper()
	raw, err := os.ReadFile("../testdata/usage_samples.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Samples []sample }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Samples
}

// version finds what a sample says must be found. Two samples name their row
// themselves: a bedrock inference profile and a self hosted model.
func version(t testing.TB, b *pricing.Book, s sample, u usage.Usage) pricing.Version {
	t.Helper()
	provider, model := u.Provider, s.Model
	switch s.ID {
	case "bedrock-converse-cache":
		model = s.PriceKey
	case "vllm-stream":
		provider, model = "ollama", s.PriceKey
	}
	v, _, err := b.At(provider, model, now())
	if err != nil {
		t.Fatal(err)
	}
	if v.Model != s.PriceKey {
		t.Fatalf("found %s, want %s", v.Model, s.PriceKey)
	}
	return v
}

func TestSamplesToTheDigit(t *testing.T) {
	b := sampleBook(t)
	for _, s := range samples(t) {
		t.Run(s.ID, func(t *testing.T) {
			u, err := usage.Normalise(s.Provider, s.API, s.Payload)
			if err != nil {
				t.Fatal(err)
			}
			c, err := pricing.Cost(version(t, b, s, u), u, pricing.Options{Batch: s.Batch})
			if s.Cost == nil {
				if !errors.Is(err, pricing.ErrNoUsage) {
					t.Errorf("cost of missing usage: %v, %v", c.Total, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Total.Cmp(*s.Cost) != 0 {
				t.Errorf("total %s, want %s", c.Total, s.Cost)
			}
			if len(c.Lines) != len(s.Lines) {
				t.Errorf("lines %v, want %v", c.Lines, s.Lines)
			}
			sums := map[usage.Meter]money.USD{}
			for _, l := range c.Lines {
				sums[l.Meter] = sums[l.Meter].Add(l.CostUSD)
			}
			for m, cost := range sums {
				if cost.String() != s.Lines[string(m)] {
					t.Errorf("%s costs %s, want %s", m, cost, s.Lines[string(m)])
				}
			}
			flags := append(slices.Clone(u.Flags), c.Flags...)
			if slices.Sort(flags); !slices.Equal(flags, s.Flags) {
				t.Errorf("flags %v, want %v", flags, s.Flags)
			}
		})
	}
}

// Field reports, by their number.
func TestFieldReports(t *testing.T) {
	b := sampleBook(t)
	t.Run("83 cached part charged once, at the tier", func(t *testing.T) {
		v := one(t, "g", `{"litellm_provider":"gemini","mode":"chat","input_cost_per_token":1.25e-6,"input_cost_per_token_above_200k_tokens":2.5e-6,
			"output_cost_per_token":1e-5,"output_cost_per_token_above_200k_tokens":1.5e-5,
			"cache_read_input_token_cost":3.125e-7,"cache_read_input_token_cost_above_200k_tokens":6.25e-7}`)
		u, err := usage.Normalise("gcp.gemini", "generateContent", []byte(`{"usageMetadata":{"promptTokenCount":262960,"cachedContentTokenCount":257955,"candidatesTokenCount":1744,"totalTokenCount":264704}}`))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := pricing.Cost(v, u, pricing.Options{}); err != nil || c.Total.String() != "0.199894375" {
			t.Errorf("%s, %v", c.Total, err)
		}
	})
	t.Run("85 cached discount", func(t *testing.T) {
		got := total(t, find(t, b, "openai", "gpt-5"), `{"input_tokens":51232,"input_cache_read_tokens":1188096,"output_tokens":12909}`, pricing.Options{})
		if got != "0.341642" {
			t.Error(got)
		}
	})
	t.Run("88 long context tier", func(t *testing.T) {
		v := one(t, "xai/grok-4", `{"litellm_provider":"xai","mode":"chat","input_cost_per_token":3e-6,"input_cost_per_token_above_128k_tokens":6e-6,
			"output_cost_per_token":1.5e-5,"output_cost_per_token_above_128k_tokens":3e-5}`)
		if got := total(t, v, `{"input_tokens":162732,"output_tokens":1307}`, pricing.Options{}); got != "1.015602" {
			t.Error(got)
		}
	})
	t.Run("89 cache price used once", func(t *testing.T) {
		v := one(t, "m", `{"litellm_provider":"p","input_cost_per_token":1,"cache_read_input_token_cost":0.25}`)
		if got := total(t, v, `{"input_cache_read_tokens":4}`, pricing.Options{}); got != "1" {
			t.Error(got)
		}
	})
	t.Run("92 cached above input", func(t *testing.T) {
		if _, err := usage.Normalise("openai", "responses", []byte(`{"usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":2},"output_tokens":1}}`)); !errors.Is(err, usage.ErrNegative) {
			t.Error(err)
		}
	})
	t.Run("94 no float tails", func(t *testing.T) {
		v := one(t, "m", `{"litellm_provider":"p","input_cost_per_token":1.5e-7,"output_cost_per_token":6e-7}`)
		if got := total(t, v, `{"input_tokens":10766,"output_tokens":1}`, pricing.Options{}); got != "0.0016155" {
			t.Error(got)
		}
	})
	t.Run("95 unknown is not free", func(t *testing.T) {
		var unpriced *pricing.UnpricedError
		if _, _, err := b.At("openai", "gpt-9", now()); !errors.As(err, &unpriced) {
			t.Error(err)
		}
		_, err := pricing.Cost(find(t, b, "openai", "gpt-5"), meters(t, `{"input_tokens":5,"input_audio_tokens":3,"web_search_requests":1}`), pricing.Options{})
		if !errors.As(err, &unpriced) || !slices.Equal(unpriced.Meters, []usage.Meter{usage.InputAudio, usage.WebSearch}) {
			t.Error(err)
		}
		if got := total(t, find(t, b, "ollama", "llama3"), `{"input_tokens":5,"output_tokens":5}`, pricing.Options{}); got != "0" {
			t.Error("a stated zero is a price")
		}
	})
}

func TestThresholdEdges(t *testing.T) {
	b := sampleBook(t)
	for _, c := range []struct {
		provider, model string
		prompt          int64
		inputRate       string
	}{
		{"x_ai", "grok-4-fast-reasoning", 127_999, "0.0000002"}, {"x_ai", "grok-4-fast-reasoning", 128_000, "0.0000004"}, // inclusive
		{"anthropic", "claude-sonnet-4-5", 200_000, "0.000003"}, {"anthropic", "claude-sonnet-4-5", 200_001, "0.000006"},
		{"gcp.gemini", "gemini-2.5-pro", 200_000, "0.00000125"}, {"gcp.gemini", "gemini-2.5-pro", 200_001, "0.0000025"},
		{"openai", "gpt-5.4", 272_000, "0.0000025"}, {"openai", "gpt-5.4", 272_001, "0.000005"},
		{"minimax", "MiniMax-M3", 512_000, "0.0000003"}, {"minimax", "MiniMax-M3", 512_001, "0.0000006"},
		{"dashscope", "qwen3-coder-plus", 32_000, "0.000001"}, {"dashscope", "qwen3-coder-plus", 32_001, "0.0000018"},
		{"dashscope", "qwen3-coder-plus", 128_000, "0.0000018"}, {"dashscope", "qwen3-coder-plus", 128_001, "0.000003"},
		{"dashscope", "qwen3-coder-plus", 256_001, "0.000006"}, {"dashscope", "qwen3-coder-plus", 2_000_000, "0.000006"},
	} {
		v := find(t, b, c.provider, c.model)
		// The prompt is nearly all cached: the threshold looks at the whole.
		u := meters(t, fmt.Sprintf(`{"input_tokens":10,"input_cache_read_tokens":%d}`, c.prompt-10))
		got, err := pricing.Cost(v, u, pricing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got.Lines {
			if l.Meter == usage.Input && l.Rate.String() != c.inputRate {
				t.Errorf("%s at %d: input %s, want %s", c.model, c.prompt, l.Rate, c.inputRate)
			}
		}
	}
	strict := one(t, "m", `{"litellm_provider":"p","input_cost_per_token":1,"input_cost_per_token_above_128k_tokens":2}`)
	if a, b := total(t, strict, `{"input_tokens":128000}`, pricing.Options{}), total(t, strict, `{"input_tokens":128001}`, pricing.Options{}); a != "128000" || b != "256002" {
		t.Error(a, b)
	}
}

// Each case prices one token of a meter and names the basis.
func TestRateChoice(t *testing.T) {
	b := sampleBook(t)
	for name, c := range map[string]struct {
		provider, model, use string
		o                    pricing.Options
		rate, basis          string
		flags                []string
	}{
		"flex":                       {"openai", "gpt-5", `{"input_tokens":1}`, pricing.Options{ServiceTier: "flex"}, "0.000000625", "", nil},
		"priority":                   {"openai", "gpt-5", `{"output_tokens":1}`, pricing.Options{ServiceTier: "priority"}, "0.00002", "", nil},
		"fast is priority":           {"openai", "gpt-5", `{"output_tokens":1}`, pricing.Options{ServiceTier: "fast"}, "0.00002", "", nil},
		"batch":                      {"openai", "gpt-4o", `{"input_tokens":1}`, pricing.Options{Batch: true}, "0.00000125", "", nil},
		"batch, cached: half":        {"openai", "gpt-4o", `{"input_cache_read_tokens":1}`, pricing.Options{Batch: true}, "0.000000625", "batch_half", nil},
		"batch without keys":         {"anthropic", "claude-opus-5", `{"output_tokens":1}`, pricing.Options{Batch: true}, "0.0000125", "batch_half", nil},
		"batch above the threshold":  {"openai", "gpt-5.4", `{"input_tokens":300000}`, pricing.Options{Batch: true}, "0.0000025", "batch_half", nil},
		"batch leaves searches":      {"anthropic", "claude-opus-5", `{"web_search_requests":1}`, pricing.Options{Batch: true}, "0.01", "", nil},
		"tier missing":               {"openai", "gpt-5-nano", `{"output_tokens":1}`, pricing.Options{ServiceTier: "priority"}, "0.0000004", "standard_tier", []string{"missing_rate_fallback"}},
		"tier missing at threshold":  {"openai", "gpt-5.4", `{"input_tokens":300000}`, pricing.Options{ServiceTier: "flex"}, "0.000005", "standard_tier", []string{"missing_rate_fallback"}},
		"tier at threshold":          {"gcp.gemini", "gemini-3-pro-preview", `{"input_tokens":300000}`, pricing.Options{ServiceTier: "priority"}, "0.0000072", "", nil},
		"reasoning is output":        {"openai", "gpt-5", `{"output_reasoning_tokens":1}`, pricing.Options{}, "0.00001", "rate_of:output_tokens", nil},
		"reasoning has its own":      {"gcp.gemini", "gemini-omni-flash-preview", `{"output_reasoning_tokens":1}`, pricing.Options{}, "0.000009", "", nil},
		"cached without a rate":      {"mistral_ai", "mistral-large-latest", `{"input_cache_read_tokens":1}`, pricing.Options{}, "0.0000005", "rate_of:input_tokens", []string{"missing_rate_fallback"}},
		"cached audio as cached":     {"gcp.gemini", "gemini-2.5-flash", `{"input_audio_cache_read_tokens":1}`, pricing.Options{}, "0.00000003", "rate_of:input_cache_read_tokens", nil},
		"cached audio as audio":      {"gcp.gemini", "gemini-omni-flash-preview", `{"input_audio_cache_read_tokens":1}`, pricing.Options{}, "0.0000015", "rate_of:input_audio_tokens", []string{"missing_rate_fallback"}},
		"cached audio, own":          {"openai", "gpt-realtime", `{"input_audio_cache_read_tokens":1}`, pricing.Options{}, "0.0000004", "", nil},
		"5 minutes is the base":      {"anthropic", "claude-opus-5", `{"input_cache_write_5m_tokens":1}`, pricing.Options{}, "0.00000625", "rate_of:input_cache_write_tokens", nil},
		"1 hour":                     {"anthropic", "claude-opus-5", `{"input_cache_write_1h_tokens":1}`, pricing.Options{}, "0.00001", "", nil},
		"1 hour above the threshold": {"anthropic", "claude-sonnet-4-5", `{"input_cache_write_1h_tokens":200001}`, pricing.Options{}, "0.000012", "", nil},
		"place":                      {"anthropic", "claude-opus-5", `{"input_cache_read_tokens":1}`, pricing.Options{Geo: "us"}, "0.00000055", "×geo:us", nil},
		"region":                     {"openai", "gpt-5.4", `{"input_tokens":1}`, pricing.Options{Geo: "EU"}, "0.00000275", "×region:eu", nil},
		"region and batch":           {"openai", "gpt-5.4", `{"input_tokens":1}`, pricing.Options{Geo: "eu", Batch: true}, "0.000001375", "×region:eu", nil},
		"fast in a place":            {"anthropic", "claude-opus-4-7", `{"output_tokens":1}`, pricing.Options{Geo: "us", Speed: "fast"}, "0.000165", "×geo:us,×speed:fast", nil},
		"place unknown":              {"anthropic", "claude-opus-5", `{"input_tokens":1}`, pricing.Options{Geo: "mars", Speed: "warp"}, "0.000005", "", []string{"geo_rate_missing", "speed_rate_missing"}},
		"place not for searches":     {"anthropic", "claude-opus-5", `{"web_search_requests":1}`, pricing.Options{Geo: "us"}, "0.01", "", nil},
		"search size":                {"openai", "gpt-4o-search-preview", `{"web_search_requests_high":1}`, pricing.Options{}, "0.05", "", nil},
		"characters":                 {"openai", "tts-1", `{"input_characters":1}`, pricing.Options{}, "0.000015", "", nil},
		"video":                      {"openai", "sora-2", `{"output_video_seconds":1}`, pricing.Options{}, "0.1", "", nil},
		"rerank":                     {"cohere", "rerank-v3.5", `{"search_units":1}`, pricing.Options{}, "0.002", "", nil},
		"images":                     {"gcp.gemini", "imagen-4.0-generate-001", `{"output_images":1}`, pricing.Options{}, "0.04", "", nil},
		"pixels":                     {"openai", "512-x-512/dall-e-2", `{"output_pixels":1}`, pricing.Options{}, "0.0000000686", "", nil},
		"session":                    {"openai", "container", `{"code_interpreter_sessions":1}`, pricing.Options{}, "0.03", "", nil},
		"page":                       {"mistral_ai", "mistral-ocr-latest", `{"ocr_pages":1}`, pricing.Options{}, "0.004", "", nil},
		"fraction of a second":       {"deepgram", "nova-3", `{"audio_seconds":0.5}`, pricing.Options{}, "0.00007167", "", nil},
	} {
		got, err := pricing.Cost(find(t, b, c.provider, c.model), meters(t, c.use), c.o)
		if err != nil || len(got.Lines) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if l := got.Lines[0]; l.Rate.String() != c.rate || l.Basis != c.basis || !slices.Equal(got.Flags, c.flags) {
			t.Errorf("%s: rate %s basis %q flags %v", name, l.Rate, l.Basis, got.Flags)
		}
	}
	var unpriced *pricing.UnpricedError
	v := one(t, "m", `{"litellm_provider":"anthropic","input_cost_per_token":1,"cache_creation_input_token_cost":1}`)
	if _, err := pricing.Cost(v, meters(t, `{"input_cache_write_1h_tokens":1}`), pricing.Options{}); !errors.As(err, &unpriced) {
		t.Errorf("one hour writes must not go free: %v", err)
	}
}

// What the response reports was used, whatever the caller asked for.
func TestResponseWins(t *testing.T) {
	v := find(t, sampleBook(t), "openai", "gpt-5")
	u, err := usage.Normalise("openai", "responses", []byte(`{"service_tier":"default","usage":{"input_tokens":1000000,"output_tokens":0}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := pricing.Cost(v, u, pricing.Options{ServiceTier: "flex"}); err != nil || c.Total.String() != "1.25" {
		t.Errorf("%s, %v", c.Total, err)
	}
}

func TestGraduated(t *testing.T) {
	v := one(t, "m", `{"litellm_provider":"p","tiered_pricing":[{"range":[0,100],"input_cost_per_token":1,"output_cost_per_token":2},{"range":[100,1000.0],"input_cost_per_token":3,"output_cost_per_token":4}]}`)
	if got := total(t, v, `{"input_tokens":101}`, pricing.Options{}); got != "303" {
		t.Error(got)
	}
	v.Tier.Graduated = true
	if got := total(t, v, `{"input_tokens":101,"output_tokens":150}`, pricing.Options{}); got != "503" { // 100+3, 200+200
		t.Error(got)
	}
	v.Tier.Inclusive = true
	if got := total(t, v, `{"input_tokens":101}`, pricing.Options{}); got != "105" { // 99+6
		t.Error(got)
	}
}

func TestEstimate(t *testing.T) {
	b := sampleBook(t)
	for name, c := range map[string]struct {
		provider, model string
		e               pricing.Estimate
		want            string
	}{
		"base":                {"openai", "gpt-4o", pricing.Estimate{InputTokens: 1000, MaxOutputTokens: 500}, "0.0075"},
		"13 tier of the hold": {"openai", "gpt-5.4", pricing.Estimate{InputTokens: 272_001, MaxOutputTokens: 1000}, "1.382505"},
		"8 prompt only":       {"openai", "gpt-4o", pricing.Estimate{InputTokens: 50_000}, "0.125"},
		"own meters":          {"anthropic", "claude-opus-5", pricing.Estimate{InputTokens: 1, Meters: usage.Meters{usage.CacheWrite1h: dec(t, "1"), usage.WebSearch: dec(t, "2")}}, "0.020015"},
		"dearer reasoning":    {"dashscope", "qwen-plus-latest", pricing.Estimate{MaxOutputTokens: 1_000_000}, "4"},
	} {
		v := find(t, b, c.provider, c.model)
		if total, err := pricing.EstimateTotal(&v, c.e); err != nil || total.String() != c.want {
			t.Errorf("%s: %s in all, %v; want %s", name, total, err, c.want)
		}
		got, err := pricing.EstimateCost(v, c.e, pricing.Options{})
		if err != nil || got.Total.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.Total, err, c.want)
		}
	}
	if _, err := pricing.EstimateCost(find(t, b, "openai", "gpt-4o"), pricing.Estimate{InputTokens: -1}, pricing.Options{}); !errors.Is(err, usage.ErrNegative) {
		t.Error(err)
	}
	none := find(t, b, "openai", "gpt-4o")
	if _, err := pricing.EstimateTotal(&none, pricing.Estimate{MaxOutputTokens: -1}); !errors.Is(err, usage.ErrNegative) {
		t.Error(err)
	}
	if v := find(t, b, "openai", "gpt-4o"); v.OutputBound(0) != 16384 || v.OutputBound(7) != 7 {
		t.Error("output bound")
	}
}

// For any quantities: the lines add up, nothing is negative, and a reversal
// cancels to the digit, in dollars and in nano-dollars.
func TestCostProperties(t *testing.T) {
	b := sampleBook(t)
	histories := b.Histories()
	rapid.Check(t, func(t *rapid.T) {
		h := histories[rapid.IntRange(0, len(histories)-1).Draw(t, "model")]
		v := h.Versions[0]
		m := usage.Meters{}
		for _, r := range v.Rates {
			if n := rapid.Int64Range(0, 400_000).Draw(t, string(r.Meter)); n > 0 {
				m[r.Meter] = money.NewDecimal(n)
			}
		}
		o := pricing.Options{Batch: rapid.Bool().Draw(t, "batch"), ServiceTier: rapid.SampledFrom([]string{"", "flex", "priority"}).Draw(t, "tier"), Geo: rapid.SampledFrom([]string{"", "us", "eu"}).Draw(t, "geo")}
		c, err := pricing.Cost(v, usage.FromMeters(m), o)
		if err != nil {
			t.Fatalf("%s: %v", h.Model, err)
		}
		var sum money.USD
		for _, l := range c.Lines {
			if l.CostUSD.Sign() < 0 || l.CostUSD.Cmp(money.Price(l.Quantity, l.Rate)) != 0 {
				t.Fatalf("%+v", l)
			}
			sum = sum.Add(l.CostUSD)
		}
		if sum.Cmp(c.Total) != 0 || len(c.Lines) != len(m) {
			t.Fatalf("lines sum to %s, total %s", sum, c.Total)
		}
		up, err := money.CeilNano(c.Total)
		down, err2 := money.CeilNano(c.Total.Neg())
		if err == nil && (err2 != nil || up+down != 0) || !c.Total.Add(c.Total.Neg()).IsZero() {
			t.Fatalf("reversal of %s leaves %d", c.Total, up+down)
		}
	})
}

func BenchmarkCost(b *testing.B) {
	book := sampleBook(b)
	for _, s := range samples(b) {
		if s.Cost == nil {
			continue
		}
		u, err := usage.Normalise(s.Provider, s.API, s.Payload)
		if err != nil {
			b.Fatal(err)
		}
		v := version(b, book, s, u)
		b.Run(s.ID, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pricing.Cost(v, u, pricing.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Goal: an estimate of tokens alone costs what the usage of as many tokens does, whatever the model's rates are: lines, flags
// and errors too.
func TestEstimateOfTokensIsTheirCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := pricing.Version{Provider: "p", Model: "m", ID: "pv", Tier: pricing.TierRule{Graduated: rapid.Bool().Draw(t, "graduated"), Inclusive: rapid.Bool().Draw(t, "inclusive")}}
		for _, m := range []usage.Meter{usage.Input, usage.Output, usage.CacheRead} {
			for _, above := range []int64{200, 0} {
				for _, tier := range []string{"", pricing.TierBatch} {
					if rapid.Bool().Draw(t, "there") {
						rate, err := money.ParseDecimal(rapid.SampledFrom([]string{"0", "0.0000025", "0.00001", "1.5", "0.123456789012345678"}).Draw(t, "rate"))
						if err != nil {
							t.Fatal(err)
						}
						v.Rates = append(v.Rates, pricing.Rate{Meter: m, ServiceTier: tier, AboveTokens: above, USDPerUnit: rate})
					}
				}
			}
		}
		e := pricing.Estimate{InputTokens: rapid.Int64Range(0, 400).Draw(t, "in"), MaxOutputTokens: rapid.SampledFrom([]int64{0, 1, 300, 1 << 53}).Draw(t, "out")}
		m := usage.Meters{}
		m.Add(usage.Input, e.InputTokens)
		m.Add(usage.Output, e.MaxOutputTokens)
		want, wantErr := pricing.Cost(v, usage.FromMeters(m), pricing.Options{})
		got, err := pricing.EstimateCost(v, e, pricing.Options{})
		if fmt.Sprint(got.Lines, got.Total, got.Flags, got.PriceVersion, err) != fmt.Sprint(want.Lines, want.Total, want.Flags, want.PriceVersion, wantErr) {
			t.Errorf("%+v of %+v\n%+v, %v\n%+v, %v", e, v, got, err, want, wantErr)
		}
		if total, err := pricing.EstimateTotal(&v, e); fmt.Sprint(total, err) != fmt.Sprint(want.Total, wantErr) {
			t.Errorf("%+v of %+v in all: %s, %v; want %s, %v", e, v, total, err, want.Total, wantErr)
		}
	})
}
