package tenantsfile

import (
	"maps"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

const laddered = `
plans:
  pro:
    limits: {concurrency: 5}
    ceilings: {minute_usd: 1, day_usd: 100, month_usd: 1000}
    ladder:
      thresholds: [40, 70, 90]
      semantic_threshold: 0.95
      saving_models: {openai/gpt-4o: gpt-4o-mini, claude-opus-4: claude-haiku-4}
      upgrade_url: https://example.com/upgrade
      language: es
      texts:
        en: {saving: Frugal mode., cut: Out of money.}
        es: {saving: Modo frugal.}
tenants:
  - {id: heir, plan: pro}
  - {id: steps, plan: pro, ladder: [10, 20, 30]}
  - id: other
    plan: pro
    ladder:
      semantic_threshold: ""
      saving_models: {claude-opus-4: "", openai/o3: o4-mini}
      language: en
      texts: {en: {cut: "", normal: Fine.}}
`

// A tenant inherits what the rungs do and overrides it piece by piece; an empty value takes the plan's away.
func TestLadderOfPlans(t *testing.T) {
	f, err := Parse([]byte(laddered))
	if err != nil {
		t.Fatal(err)
	}
	heir, steps, other := f.Contracts["heir"], f.Contracts["steps"], f.Contracts["other"]
	a := heir.Actions
	if heir.Ladder != [3]int32{40, 70, 90} || a.SemanticThreshold != "0.95" || a.UpgradeURL != "https://example.com/upgrade" || a.Language != ladder.Spanish {
		t.Errorf("heir: %v %+v", heir.Ladder, a)
	}
	if model, ok := a.SavingModel(tenant.Model{Provider: "openai", Name: "gpt-4o"}); !ok || model != "gpt-4o-mini" {
		t.Errorf("saving model %q %v", model, ok)
	}
	if model, ok := a.SavingModel(tenant.Model{Provider: "azure", Name: "gpt-4o"}); ok {
		t.Errorf("another provider's model saves by %q", model)
	}
	if model, ok := a.SavingModel(tenant.Model{Provider: "anthropic", Name: "claude-opus-4-20260101"}, tenant.Model{Provider: "anthropic", Name: "claude-opus-4"}); !ok || model != "claude-haiku-4" {
		t.Errorf("the model's own name is not tried: %q", model)
	}
	if want := (ladder.Texts{Saving: "Frugal mode.", Cut: "Out of money."}); a.Texts[ladder.English] != want || a.Texts[ladder.Spanish].Saving != "Modo frugal." {
		t.Errorf("texts %+v", a.Texts)
	}
	if steps.Ladder != [3]int32{10, 20, 30} || !steps.Actions.Equal(heir.Actions) {
		t.Errorf("a list changes more than the steps: %v %+v", steps.Ladder, steps.Actions)
	}
	b := other.Actions
	if b.SemanticThreshold != "" || b.Language != ladder.English || b.UpgradeURL != a.UpgradeURL || other.Ladder != heir.Ladder {
		t.Errorf("other: %+v", b)
	}
	if want := map[string]string{"openai/gpt-4o": "gpt-4o-mini", "openai/o3": "o4-mini"}; !maps.Equal(b.SavingModels, want) {
		t.Errorf("saving models %v", b.SavingModels)
	}
	if want := (ladder.Texts{Saving: "Frugal mode.", Normal: "Fine."}); b.Texts[ladder.English] != want || b.Texts[ladder.Spanish].Saving != "Modo frugal." {
		t.Errorf("texts %+v", b.Texts)
	}
}

// Anchors and merge keys are plain YAML, so they work inside the ladder, too.
func TestLadderByAnchor(t *testing.T) {
	f, err := Parse([]byte("plans:\n  p: &p {ladder: &l {semantic_threshold: 0.9}, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}}\n" +
		"  q: {<<: *p, ladder: {<<: *l, language: es}}\ntenants: [{id: a, plan: q}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a := f.Contracts["a"].Actions; a.SemanticThreshold != "0.9" || a.Language != ladder.Spanish {
		t.Errorf("%+v", a)
	}
}

// Every mistake in the ladder is told in the words of the file; those of the form with their line.
func TestLadderRefuses(t *testing.T) {
	ok := "limits: {concurrency: 1}\n    ceilings: {minute_usd: 1, day_usd: 1, month_usd: 1}\n"
	for _, c := range []struct{ name, ladder, want string }{
		{"unknown field", "{\n      tresholds: [1, 2, 3]}", `line 6: unknown field "tresholds"; did you mean "thresholds"?`},
		{"unknown text", "{texts: {en:\n      {readonly: x}}}", `line 6: unknown field "readonly"; did you mean "read_only"?`},
		{"merged unknown", "{<<: {modles: {}}}", `unknown field "modles"`},
		{"merged unknown of a list", "{<<: [{language: en}, {modles: {}}]}", `unknown field "modles"`},
		{"an anchor in itself", "&l {<<: *l}", ""},
		{"an anchor in its texts", "&l {texts: *l}", `unknown field`},
		{"a word", "steep", "line 5: the value `steep` does not belong here"},
		{"two steps", "[1, 2]", "three percentages"},
		{"two steps in the mapping", "{thresholds: [1, 2]}", "three percentages"},
		{"falling steps", "{thresholds: [3, 2, 1]}", "rising"},
		{"threshold above one", "{semantic_threshold: 1.01}", "semantic_threshold"},
		{"threshold below zero", "{semantic_threshold: -0.1}", "semantic_threshold"},
		{"threshold no number", "{semantic_threshold: high}", "semantic_threshold"},
		{"model with a blank", "{saving_models: {gpt-4o: 'gpt 4o mini'}}", "saving_models"},
		{"model saves by itself", "{saving_models: {openai/gpt-4o: gpt-4o}}", "names itself"},
		{"a list of models", "{saving_models: [gpt-4o]}", "a list does not belong here"},
		{"language", "{language: fr}", "ladder.language"},
		{"texts in a language", "{texts: {fr: {cut: fini}}}", "ladder.texts"},
		{"text of two lines", `{texts: {en: {cut: "a\nb"}}}`, "ladder.texts.en.cut"},
		{"long text", "{texts: {es: {saving: " + strings.Repeat("x", 401) + "}}}", "ladder.texts.es.saving"},
		{"no address", "{upgrade_url: 'javascript:alert(1)'}", "upgrade_url"},
		{"field twice", "{language: en, language: es}", "already defined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte("tenants:\n  - id: a\n    " + ok + "    ladder: " + c.ladder + "\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error with %q, got %v", c.want, err)
			}
			if strings.Contains(err.Error(), "tenantsfile.") || strings.Contains(err.Error(), "!!") {
				t.Errorf("Go's words: %q", err)
			}
		})
	}
}
