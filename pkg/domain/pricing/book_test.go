package pricing_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/pricing/litellm"
	"github.com/weir-project/weir/pkg/domain/usage"
)

func dec(t testing.TB, s string) money.Decimal {
	t.Helper()
	d, err := money.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func now() time.Time { return time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) }

// sampleBook is the sample price file, effective from the beginning.
func sampleBook(t testing.TB) *pricing.Book {
	t.Helper()
	raw, err := os.ReadFile("../testdata/prices_sample.json")
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := litellm.Parse(raw, "sample")
	if err != nil {
		t.Fatal(err)
	}
	return bookOf(t, rows...)
}

func bookOf(t testing.TB, rows ...pricing.Version) *pricing.Book {
	t.Helper()
	b := pricing.NewBook()
	for _, row := range rows {
		h, _ := b.History(row.Provider, row.Model)
		h, err := h.Add(row)
		if err != nil {
			t.Fatal(err)
		}
		b = b.With(h)
	}
	return b
}

// one reads a single row in LiteLLM's own fields.
func one(t testing.TB, key, fields string) pricing.Version {
	t.Helper()
	rows, odd, err := litellm.Parse([]byte(`{"`+key+`":`+fields+`}`), "test")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v %v %v", rows, odd, err)
	}
	v, err := rows[0].Seal()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func find(t testing.TB, b *pricing.Book, provider, model string) pricing.Version {
	t.Helper()
	v, _, err := b.At(provider, model, now())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func meters(t testing.TB, text string) usage.Usage {
	t.Helper()
	var in map[string]json.Number
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	m, err := usage.ParseMeters(in)
	if err != nil {
		t.Fatal(err)
	}
	return usage.FromMeters(m)
}

func total(t testing.TB, v pricing.Version, text string, o pricing.Options) string {
	t.Helper()
	c, err := pricing.Cost(v, meters(t, text), o)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c.Total.String()
}

func TestLookup(t *testing.T) {
	b := sampleBook(t)
	for _, c := range []struct {
		provider, model, key string
		alias                bool
	}{
		{"openai", "gpt-5", "gpt-5", false},
		{"openai", "gpt-5-2025-08-07", "gpt-5", true},
		{"openai", "gpt-4o-audio-preview-2025-06-03", "gpt-4o-audio-preview", true},
		{"anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5", true},
		{"anthropic", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5", true},
		{"anthropic", "claude-3-haiku-20240307", "claude-3-haiku-20240307", false},
		{"cohere", "command-a-03-2025", "command-a-03-2025", false},
		{"cohere", "rerank-v3.5", "rerank-v3.5", false},
		{"gcp.gemini", "gemini-2.5-flash", "gemini/gemini-2.5-flash", false},
		{"GCP.Gemini", "gemini-2.5-flash", "gemini/gemini-2.5-flash", false},
		{" OpenAI\t", "gpt-5-2025-08-07", "gpt-5", true},
		{"OPENAI", "GPT-5", "", false}, // a model's name is its own
		{"gemini", "gemini/gemini-2.5-flash", "gemini/gemini-2.5-flash", false},
		{"gcp.vertex_ai", "gemini-2.5-flash", "gemini/gemini-2.5-flash", false},
		{"aws.bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0", false},
		{"aws.bedrock", "amazon.rerank-v1:0", "amazon.rerank-v1:0", false},
		{"azure.ai.openai", "gpt-4o", "azure/gpt-4o", false},
		{"azure", "eu/gpt-4o-2024-08-06", "azure/eu/gpt-4o-2024-08-06", false},
		{"mistral_ai", "mistral-large-latest", "mistral/mistral-large-latest", false},
		{"x_ai", "grok-4-fast-reasoning", "xai/grok-4-fast-reasoning", false},
		{"ollama", "llama3", "ollama/llama3", false},
		{"openai", "gpt-5-turbo", "", false},
		{"openai", "gpt-5-2025-13-07", "", false},
		{"openai", "gpt-5-1234", "", false},
		{"openai", "gpt-", "", false},
		{"openai", "", "", false},
		{"openai", "-2025-08-07", "", false},
		{"azure", "gpt-5", "", false}, // the provider is part of the key
		{"", "gpt-5", "", false},
	} {
		v, flags, err := b.At(c.provider, c.model, now())
		var unpriced *pricing.UnpricedError
		if c.key == "" {
			if !errors.As(err, &unpriced) {
				t.Errorf("%s %s: found %q, %v", c.provider, c.model, v.Model, err)
			}
			continue
		}
		if err != nil || v.Model != c.key || (len(flags) == 1) != c.alias {
			t.Errorf("%s %s: %q %v %v", c.provider, c.model, v.Model, flags, err)
		}
	}
}

// The price is that of the event's time, whenever it is asked.
func TestVersionsByTime(t *testing.T) {
	raw, err := os.ReadFile("../testdata/price_versions_sample.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []map[string]any }
	d := json.NewDecoder(bytesReader(raw))
	d.UseNumber()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	var rows []pricing.Version
	for _, r := range file.Rows {
		fields := map[string]any{"litellm_provider": r["provider"], "mode": "chat"}
		for _, f := range []string{"input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token"} {
			fields[f] = r[f]
		}
		text, _ := json.Marshal(fields)
		v := one(t, r["model"].(string), string(text))
		if v.EffectiveFrom, err = time.Parse(time.RFC3339, r["effective_from"].(string)); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, v)
	}
	b := bookOf(t, rows[1], rows[0]) // published in the wrong order
	const use = `{"input_tokens":1000000,"input_cache_read_tokens":1000000,"output_tokens":1000000}`
	for at, want := range map[string]string{
		"2026-07-09T00:00:00Z": "35.5", "2026-08-20T23:59:59.999999999Z": "35.5",
		"2026-08-21T00:00:00Z": "24.4", "2026-08-21T02:00:00+02:00": "24.4", "2027-01-01T00:00:00Z": "24.4",
	} {
		when, _ := time.Parse(time.RFC3339, at)
		v, _, err := b.At("openai", "gpt-5.6-sol", when)
		if err != nil {
			t.Fatal(err)
		}
		if got := total(t, v, use, pricing.Options{}); got != want {
			t.Errorf("at %s: %s, want %s", at, got, want)
		}
	}
	if _, _, err := b.At("openai", "gpt-5.6-sol", time.Date(2026, 7, 8, 23, 59, 59, 0, time.UTC)); err == nil {
		t.Error("priced before the first version")
	}
}

func TestHistory(t *testing.T) {
	v := one(t, "m", `{"litellm_provider":"p","mode":"chat","input_cost_per_token":1e-6}`)
	dearer := one(t, "m", `{"litellm_provider":"p","mode":"chat","input_cost_per_token":2e-6}`)
	dearer.PublishedAt = now()
	h, err := pricing.History{}.Add(v)
	if err != nil {
		t.Fatal(err)
	}
	if h, _ = h.Add(v); len(h.Versions) != 1 {
		t.Error("a repeat is added twice")
	}
	h, _ = h.Add(dearer) // a correction, effective from the same instant
	if got, _ := h.At(now()); len(h.Versions) != 2 || got.ID != h.Versions[1].ID || got.Rates[0].USDPerUnit.String() != "0.000002" {
		t.Errorf("the later publication must win: %+v", got)
	}
	if _, err := h.Add(one(t, "other", `{"litellm_provider":"p","input_cost_per_token":1}`)); !errors.Is(err, pricing.ErrInvalid) {
		t.Errorf("foreign version: %v", err)
	}
	if v.ID == dearer.ID || v.ID == "" {
		t.Errorf("ids %q, %q", v.ID, dearer.ID)
	}
}

func TestSealIsCanonicalAndStrict(t *testing.T) {
	base := one(t, "m", `{"litellm_provider":"p","mode":"chat","input_cost_per_token":1e-6,"output_cost_per_token":2.50e-6}`)
	again := base
	again.Rates = []pricing.Rate{base.Rates[1], base.Rates[0]}
	again.PublishedAt, again.Source, again.ID = now(), "elsewhere", ""
	if again, err := again.Seal(); err != nil || again.ID != base.ID {
		t.Errorf("%v, ids %s %s", err, again.ID, base.ID)
	}
	for name, change := range map[string]func(*pricing.Version){
		"currency":   func(v *pricing.Version) { v.Currency = "EUR" },
		"no model":   func(v *pricing.Version) { v.Model = "" },
		"twice":      func(v *pricing.Version) { v.Rates = append(v.Rates, v.Rates[0]) },
		"negative":   func(v *pricing.Version) { v.Rates[0].USDPerUnit = dec(t, "-1") },
		"no meter":   func(v *pricing.Version) { v.Rates[0].Meter = "tokens" },
		"standard":   func(v *pricing.Version) { v.Rates[0].ServiceTier = "standard" },
		"multiplier": func(v *pricing.Version) { v.Multipliers = map[string]money.Decimal{"geo:us": {}} },
		"too fine":   func(v *pricing.Version) { v.Rates[0].USDPerUnit = dec(t, "1e-40") },
		"too fine when multiplied": func(v *pricing.Version) {
			v.Rates[0].USDPerUnit = dec(t, "1e-20")
			v.Multipliers = map[string]money.Decimal{"geo:us": dec(t, "1.0000000001"), "speed:fast": dec(t, "1.0000000001"), "geo:eu": dec(t, "1.1")}
		},
	} {
		v := base
		v.Rates = append([]pricing.Rate(nil), base.Rates...)
		change(&v)
		if _, err := v.Seal(); !errors.Is(err, pricing.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBookIsImmutable(t *testing.T) {
	old := bookOf(t, one(t, "a", `{"litellm_provider":"p","input_cost_per_token":1}`))
	h, _ := pricing.History{}.Add(one(t, "b", `{"litellm_provider":"p","input_cost_per_token":1}`))
	if next := old.With(h); len(next.Histories()) != 2 || len(old.Histories()) != 1 {
		t.Error("With changed its receiver")
	}
}

func TestDiff(t *testing.T) {
	b := bookOf(t,
		one(t, "same", `{"litellm_provider":"p","input_cost_per_token":1e-6}`),
		one(t, "kept", `{"litellm_provider":"p","input_cost_per_token":1e-6}`),
		one(t, "other", `{"litellm_provider":"q","input_cost_per_token":1e-6}`),
		one(t, "cut", `{"litellm_provider":"p","input_cost_per_token":5e-6,"output_cost_per_token":1e-6}`))
	rows := []pricing.Version{
		one(t, "same", `{"litellm_provider":"p","input_cost_per_token":0.000001}`),
		one(t, "cut", `{"litellm_provider":"p","input_cost_per_token":4e-6,"output_cost_per_token":1}`),
		one(t, "new", `{"litellm_provider":"p","input_cost_per_token":1e-6}`),
	}
	changes := pricing.Diff(b, rows, now())
	if len(changes) != 2 {
		t.Fatalf("%+v", changes)
	}
	cut, added := changes[0], changes[1]
	if cut.Kind != pricing.Changed || !cut.Jump || len(cut.Fields) != 2 || cut.Fields[0] != (pricing.FieldChange{Field: "input_tokens", Old: "0.000005", New: "0.000004"}) {
		t.Errorf("%+v", cut)
	}
	if added.Kind != pricing.Added || added.Jump {
		t.Errorf("%+v", added)
	}
	if n := pricing.Unnamed(b, rows); n != 1 { // "kept"; the other is another provider's
		t.Errorf("%d models are not named", n)
	}
}
