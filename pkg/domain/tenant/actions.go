package tenant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// Bounds of plan data: a catalog record holds a tenant's whole history.
const (
	MaxSavingModels = 32
	MaxModelName    = 256
	MaxURL          = 512
)

// Actions are what the rungs of a plan's ladder do, beside where they begin (ADR 0008, ADR 0011). The zero value
// caches exact hits only, knows no cheaper model, and speaks English.
type Actions struct {
	// SemanticThreshold is the decimal similarity, 0 to 1, from which a semantic cache may answer at rung 1 and above;
	// "" = exact hits only.
	SemanticThreshold string
	// SavingModels name the cheaper model of the same provider that is granted from rung 2 on, by "provider/model" or
	// "model".
	SavingModels map[string]string
	// UpgradeURL is where the end user can get more; "" = nothing is said of it.
	UpgradeURL string
	// Language is that of the texts where a request asks for none; "" = English.
	Language ladder.Language
	// Texts are the plan's own, by language.
	Texts map[ladder.Language]ladder.Texts
}

// Model is one name of a model: a request and the price book may use different ones of the same.
type Model struct{ Provider, Name string }

// SavingModel is the cheaper model that the plan names for a model, with its provider's name first; false without one. The
// names of a model are tried in their order.
func (a Actions) SavingModel(names ...Model) (string, bool) {
	for _, m := range names {
		for _, key := range []string{m.Provider + "/" + m.Name, m.Name} {
			if model, ok := a.SavingModels[key]; ok && model != m.Name {
				return model, true
			}
		}
	}
	return "", false
}

// In is the language of a text: the one asked for, if texts exist in it, else the plan's.
func (a Actions) In(asked ladder.Language) ladder.Language {
	switch {
	case asked.Known():
		return asked
	case a.Language.Known():
		return a.Language
	default:
		return ladder.English
	}
}

// Equal reports whether two plans do the same.
func (a Actions) Equal(o Actions) bool {
	return a.SemanticThreshold == o.SemanticThreshold && a.UpgradeURL == o.UpgradeURL && a.Language == o.Language &&
		maps.Equal(a.SavingModels, o.SavingModels) && maps.Equal(a.Texts, o.Texts)
}

// validate lists everything that is wrong, each in words that name the field of the tenants file.
func (a Actions) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("ladder."+format, args...)) }
	if a.SemanticThreshold != "" && !isShare(a.SemanticThreshold) {
		bad("semantic_threshold must be a decimal from 0 to 1, not %.40q", a.SemanticThreshold)
	}
	if len(a.SavingModels) > MaxSavingModels {
		bad("saving_models has %d models, at most %d", len(a.SavingModels), MaxSavingModels)
	}
	for _, from := range slices.Sorted(maps.Keys(a.SavingModels)) {
		to := a.SavingModels[from]
		switch {
		case !isName(from) || !isName(to):
			bad("saving_models: %.80q: %.80q are not both names of models (1 to %d printable characters)", from, to, MaxModelName)
		case to == from || strings.HasSuffix(from, "/"+to):
			bad("saving_models: %q saves nothing: it names itself", from)
		}
	}
	if a.UpgradeURL != "" && !isWebAddress(a.UpgradeURL) {
		bad("upgrade_url must be an http(s) address of at most %d bytes", MaxURL)
	}
	if a.Language != "" && !a.Language.Known() {
		bad("language must be one of %v, not %.40q", ladder.Languages(), string(a.Language))
	}
	for _, l := range slices.Sorted(maps.Keys(a.Texts)) {
		if !l.Known() {
			bad("texts: language must be one of %v, not %.40q", ladder.Languages(), string(l))
		}
		if err := a.Texts[l].Validate(); err != nil {
			bad("texts.%s.%w", l, err)
		}
	}
	return errs
}

// isShare accepts decimals from 0 to 1, at most 18 characters: "0.95".
func isShare(s string) bool {
	d, err := money.ParseDecimal(s)
	return err == nil && len(s) <= 18 && d.Sign() >= 0 && d.Cmp(money.NewDecimal(1)) <= 0
}

func isName(s string) bool {
	return s != "" && len(s) <= MaxModelName && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e })
}

func isWebAddress(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	return ok && rest != "" && rest[0] != '/' && len(s) <= MaxURL && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e })
}
