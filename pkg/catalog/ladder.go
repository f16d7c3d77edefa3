package catalog

import (
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// encodeActions is nil for a plan that says nothing, as in records from before there was anything to say.
func encodeActions(a tenant.Actions) *weirv1.LadderActions {
	if a.Equal(tenant.Actions{}) {
		return nil
	}
	m := &weirv1.LadderActions{SemanticThreshold: a.SemanticThreshold, SavingModels: a.SavingModels, UpgradeUrl: a.UpgradeURL,
		Language: string(a.Language)}
	for l, t := range a.Texts {
		if m.Texts == nil {
			m.Texts = map[string]*weirv1.LadderTexts{}
		}
		m.Texts[string(l)] = &weirv1.LadderTexts{Normal: t.Normal, Caching: t.Caching, Saving: t.Saving, ReadOnly: t.ReadOnly, Cut: t.Cut}
	}
	return m
}

func decodeActions(m *weirv1.LadderActions) tenant.Actions {
	a := tenant.Actions{SemanticThreshold: m.GetSemanticThreshold(), SavingModels: m.GetSavingModels(), UpgradeURL: m.GetUpgradeUrl(),
		Language: ladder.Language(m.GetLanguage())}
	for l, t := range m.GetTexts() {
		if a.Texts == nil {
			a.Texts = map[ladder.Language]ladder.Texts{}
		}
		a.Texts[ladder.Language(l)] = ladder.Texts{Normal: t.GetNormal(), Caching: t.GetCaching(), Saving: t.GetSaving(),
			ReadOnly: t.GetReadOnly(), Cut: t.GetCut()}
	}
	return a
}
