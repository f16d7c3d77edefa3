package usage_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

type sample struct {
	ID          string                 `json:"id"`
	Provider    string                 `json:"provider"`
	API         string                 `json:"api"`
	ServiceTier string                 `json:"service_tier"`
	Batch       bool                   `json:"batch"`
	Payload     json.RawMessage        `json:"payload"`
	Meters      map[string]json.Number `json:"meters"`
	Context     *int64                 `json:"context_tokens"`
	Flags       []string               `json:"flags"`
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
	if len(file.Samples) != 23 {
		t.Fatalf("%d samples, want 23", len(file.Samples))
	}
	return file.Samples
}

func TestSamples(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.ID, func(t *testing.T) {
			u, err := usage.Normalise(s.Provider, s.API, s.Payload)
			if err != nil {
				t.Fatal(err)
			}
			want, err := usage.ParseMeters(s.Meters)
			if err != nil {
				t.Fatal(err)
			}
			if !sameMeters(u.Meters, want) {
				t.Errorf("meters %v, want %v", u.Meters, want)
			}
			if (u.ContextTokens == nil) != (s.Context == nil) || s.Context != nil && *u.ContextTokens != *s.Context {
				t.Errorf("context %v, want %v", u.ContextTokens, s.Context)
			}
			flags := slices.DeleteFunc(slices.Clone(s.Flags), func(f string) bool { return f == "missing_rate_fallback" }) // pricing's
			if !slices.Equal(u.Flags, flags) {
				t.Errorf("flags %v, want %v", u.Flags, flags)
			}
			// An embedding's batch leaves no trace in the payload: its caller says so.
			if u.ServiceTier == "" {
				u.ServiceTier = usage.TierStandard
			}
			if s.ID != "openai-embedding-batch" && (u.ServiceTier != s.ServiceTier || u.Batch != s.Batch) {
				t.Errorf("tier %s batch %v, want %s %v", u.ServiceTier, u.Batch, s.ServiceTier, s.Batch)
			}
		})
	}
}

// The bare usage object gives the same as the whole response.
func TestBareUsage(t *testing.T) {
	for _, s := range samples(t) {
		var body map[string]json.RawMessage
		if err := json.Unmarshal(s.Payload, &body); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"usage", "usageMetadata"} {
			bare, ok := body[key]
			if !ok {
				continue
			}
			whole, _ := usage.Normalise(s.Provider, s.API, s.Payload)
			alone, err := usage.Normalise(s.Provider, s.API, bare)
			if err != nil || !sameMeters(whole.Meters, alone.Meters) {
				t.Errorf("%s: bare usage gives %v, %v; whole gives %v", s.ID, alone.Meters, err, whole.Meters)
			}
		}
	}
}

func sameMeters(a, b usage.Meters) bool {
	if len(a) != len(b) {
		return false
	}
	for m, q := range a {
		if other, ok := b[m]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// check holds for whatever Normalise accepts.
func check(t testing.TB, u usage.Usage) {
	t.Helper()
	for m, q := range u.Meters {
		if m.Unit() == usage.Unknown || q.Sign() <= 0 || q.Cmp(money.NewDecimal(1<<53)) >= 0 {
			t.Fatalf("meter %s = %s", m, q)
		}
	}
	if u.ContextTokens != nil && *u.ContextTokens != u.InputTokens() {
		t.Fatalf("context %d, input meters %d", *u.ContextTokens, u.InputTokens())
	}
	if u.Missing() && (len(u.Meters) > 0 || u.ContextTokens != nil) {
		t.Fatalf("missing usage with meters %v", u.Meters)
	}
}

func FuzzNormalise(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.Provider, s.API, []byte(s.Payload))
	}
	f.Add("openai", "chat.completions", []byte(`{"usage":{"prompt_tokens":9007199254740991,"prompt_tokens_details":{"cached_tokens":1e3}}}`))
	f.Add("anthropic", "messages", []byte(`{"stream":[null,{},[]]}`))
	f.Add("gcp.gemini", "", []byte(`{"usageMetadata":{"promptTokenCount":1,"promptTokensDetails":[{"modality":"VIDEO","tokenCount":9007199254740991}]}}`))
	f.Fuzz(func(t *testing.T, provider, api string, raw []byte) {
		if u, err := usage.Normalise(provider, api, raw); err == nil {
			check(t, u)
		}
	})
}

func BenchmarkNormalise(b *testing.B) {
	for _, s := range samples(b)[:14] {
		b.Run(s.ID, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := usage.Normalise(s.Provider, s.API, s.Payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
