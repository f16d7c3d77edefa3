package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
)

// sample is one of usage_samples.json: a response and what it must cost.
type sample struct {
	ID       string                   `json:"id"`
	Provider string                   `json:"provider"`
	API      string                   `json:"api"`
	Model    string                   `json:"model"`
	PriceKey string                   `json:"price_key"`
	Batch    bool                     `json:"batch"`
	Payload  json.RawMessage          `json:"payload"`
	Flags    []string                 `json:"flags"`
	Meters   map[string]money.Decimal `json:"meters"`
	Cost     *money.USD               `json:"expected_cost_usd"`
}

func samples(t *testing.T, root string) []sample {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "../../domain/testdata/usage_samples.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Samples []sample }
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f.Samples
}

func TestPriceSamplesToTheDigit(t *testing.T) {
	root := here(t)
	alone(t)
	for _, s := range samples(t, root) {
		t.Run(s.ID, func(t *testing.T) {
			args := []string{"price", "--provider", s.Provider, "--api", s.API, "--prices", root + "/../../domain/testdata/prices_sample.json", "--json"}
			switch s.ID {
			case "bedrock-converse-cache": // an inference profile: the caller knows which row is meant
				args = append(args, "--model", s.PriceKey)
			case "vllm-stream": // self hosted, at the rates of another provider's row
				args = append(args, "--model", s.PriceKey)
				args[2] = "ollama"
			default:
				args = append(args, "--model", s.Model)
			}
			if s.Batch {
				args = append(args, "--batch")
			}
			checkPrice(t, s, weir(t, string(s.Payload), args...))
		})
	}
}

func checkPrice(t *testing.T, s sample, a answer) {
	t.Helper()
	got := decodeJSON[priced](t, a)
	if s.Cost == nil {
		if a.code != 1 || got.CostUSD != nil || got.Reason == "" || !strings.Contains(a.out, `"cost_usd": null`) {
			t.Errorf("unpriced: exit %d, %s", a.code, a.out)
		}
		return
	}
	if a.code != 0 || got.CostUSD == nil || *got.CostUSD != s.Cost.String() || got.PriceVersion == "" {
		t.Errorf("exit %d, %s; want %s", a.code, a.out, s.Cost)
	}
	var sum money.USD
	for _, l := range got.Lines {
		cost, err := money.ParseUSD(l.CostUSD)
		if err != nil {
			t.Fatal(err)
		}
		sum = sum.Add(cost)
	}
	if sum.Cmp(*s.Cost) != 0 {
		t.Errorf("the lines add up to %s, not %s", sum, s.Cost)
	}
	if !slices.Equal(got.Flags, s.Flags) {
		t.Errorf("flags %v, want %v", got.Flags, s.Flags)
	}
	if len(got.Meters) != len(s.Meters) {
		t.Errorf("meters %v, want %v", got.Meters, s.Meters)
	}
	for m, q := range s.Meters {
		if got.Meters[m].Cmp(q) != 0 {
			t.Errorf("%s is %s, want %s", m, got.Meters[m], q)
		}
	}
}

// The usage object alone, the model by flag, and both forms of output.
func TestPriceOfAUsageObject(t *testing.T) {
	prices := here(t) + "/../../domain/testdata/prices_sample.json"
	alone(t)
	const usage = `{"prompt_tokens": 1000, "completion_tokens": 10}`
	a := weir(t, usage, "price", "--provider", "openai", "--api", "chat.completions", "--model", "gpt-4o-2024-08-06", "--prices", prices)
	if a.code != 0 || !strings.Contains(a.out, "$0.0026") || !strings.Contains(a.out, "priced as") || !strings.Contains(a.out, "gpt-4o") {
		t.Errorf("%+v", a)
	}
	a = weir(t, usage, "price", "--provider", "openai", "--model", "gpt-99", "--prices", prices)
	if a.code != 1 || !strings.Contains(a.out, "unpriced") || !strings.Contains(a.out, "gpt-99") {
		t.Errorf("unknown model: %+v", a)
	}
	for name, in := range map[string]string{"nothing": "", "no JSON": "<html>", "negative": `{"prompt_tokens": -1}`, "twice": `{"prompt_tokens": 1, "prompt_tokens": 2}`} {
		if a := weir(t, in, "price", "--provider", "openai", "--model", "gpt-4o", "--prices", prices); a.code != 2 || a.err == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := weir(t, usage, "price", "--provider", "opnai", "--model", "gpt-4o", "--prices", prices); a.code != 2 || !strings.Contains(a.err, "opnai") {
		t.Errorf("unknown provider: %+v", a)
	}
}
