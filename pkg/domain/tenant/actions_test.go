package tenant

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ladder"
)

func acting() Contract {
	c := valid()
	c.Actions = Actions{SemanticThreshold: "0.95", SavingModels: map[string]string{"openai/gpt-4o": "gpt-4o-mini"},
		UpgradeURL: "https://example.com", Language: ladder.Spanish, Texts: map[ladder.Language]ladder.Texts{ladder.English: {Cut: "Stop."}}}
	return c
}

// A contract names what is wrong with its ladder's actions, and notices when they change.
func TestActions(t *testing.T) {
	if err := acting().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  string // "" = still valid
		spoil func(*Actions)
	}{
		{"", func(a *Actions) { a.SemanticThreshold = "1" }},
		{"", func(a *Actions) { a.SemanticThreshold = "0" }},
		{"", func(a *Actions) { a.Texts = nil }},
		{"ladder.semantic_threshold", func(a *Actions) { a.SemanticThreshold = "1.000001" }},
		{"ladder.semantic_threshold", func(a *Actions) { a.SemanticThreshold = "0." + strings.Repeat("9", 30) }},
		{"ladder.saving_models", func(a *Actions) { a.SavingModels = map[string]string{"a": ""} }},
		{"ladder.saving_models", func(a *Actions) {
			a.SavingModels = map[string]string{}
			for i := range MaxSavingModels + 1 {
				a.SavingModels[fmt.Sprint(i)] = "b"
			}
		}},
		{"ladder.language", func(a *Actions) { a.Language = "de" }},
		{"ladder.texts", func(a *Actions) { a.Texts = map[ladder.Language]ladder.Texts{"de": {}} }},
		{"ladder.texts.en.saving", func(a *Actions) { a.Texts = map[ladder.Language]ladder.Texts{"en": {Saving: "a\tb"}} }},
		{"ladder.upgrade_url", func(a *Actions) { a.UpgradeURL = "https://" }},
		{"ladder.upgrade_url", func(a *Actions) { a.UpgradeURL = "https://a b" }},
	} {
		got := acting()
		c.spoil(&got.Actions)
		err := got.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v", c.want, err)
		}
		if got.Equal(acting()) {
			t.Errorf("%q: the change is not noticed", c.want)
		}
	}
}

// The text's language is the one asked for, else the plan's, else English.
func TestLanguageOfTexts(t *testing.T) {
	for _, c := range []struct{ plan, asked, want ladder.Language }{
		{"", "", "en"}, {"es", "", "es"}, {"es", "en", "en"}, {"", "es", "es"}, {"es", "fr", "es"}, {"", "fr", "en"},
	} {
		if got := (Actions{Language: c.plan}).In(c.asked); got != c.want {
			t.Errorf("plan %q, asked %q: %q, want %q", c.plan, c.asked, got, c.want)
		}
	}
}
