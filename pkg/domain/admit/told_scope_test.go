package admit

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/window"
)

// A sub-scope's cut names it, in both languages, and what the tenant has used; the plan's own text is about the tenant.
func TestCutOf(t *testing.T) {
	for _, c := range []struct {
		kind  window.ScopeKind
		id    string
		limit Limit
		lang  ladder.Language
		want  string
	}{
		{window.CostCenter, "research", LimitMinute, ladder.English, "The budget of cost centre research for this minute is used up. 7 %"},
		{window.Agent, "planner", LimitDay, ladder.English, "The budget of agent planner for today is used up."},
		{window.APIKey, window.OtherScope, LimitMonth, ladder.English, "The budget of the other API keys for this month is used up."},
		{window.Agent, "planner", LimitDay, ladder.Spanish, "El presupuesto del agente planner para hoy está agotado."},
		{window.CostCenter, window.OtherScope, LimitMonth, ladder.Spanish, "El presupuesto de los demás centros de coste para este mes está agotado."},
	} {
		told := Told{Rung: ladder.Normal, PercentUsed: 7, Language: c.lang, Own: ladder.Texts{Cut: "All gone."}}
		unfit := map[ladder.Language]string{ladder.English: "This call does not fit what is left of the budget of ", ladder.Spanish: "Esta llamada no cabe en lo que queda del presupuesto "}[c.lang]
		_, whose, _ := strings.Cut(c.want, map[ladder.Language]string{ladder.English: "The budget of ", ladder.Spanish: "El presupuesto "}[c.lang])
		whose, _, _ = strings.Cut(strings.Replace(whose, " está agotado.", ".", 1), " is used up.")
		if got := told.UnfitOf(window.Scope{Kind: c.kind, ID: c.id}, c.limit); !strings.HasPrefix(got, unfit+whose) || strings.Contains(got, "All gone") {
			t.Errorf("%q, want %q", got, unfit+whose)
		}
		if got := told.CutOf(window.Scope{Kind: c.kind, ID: c.id}, c.limit); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
