package admit

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/window"
)

// CutOf is the text of a refusal for a window of dollars of a sub-scope. It says whose budget is used up, which a plan's
// own text for the tenant's cannot.
func (t Told) CutOf(scope window.Scope, limit Limit) string {
	if t.Language == ladder.Spanish {
		return t.with(fmt.Sprintf("El presupuesto %s %s está agotado.", spanishScope(scope), map[Limit]string{
			LimitMinute: "para este minuto", LimitDay: "para hoy", LimitMonth: "para este mes"}[limit]))
	}
	return t.with(fmt.Sprintf("The budget of %s for %s is used up.", englishScope(scope), map[Limit]string{
		LimitMinute: "this minute", LimitDay: "today", LimitMonth: "this month"}[limit]))
}

func englishScope(s window.Scope) string {
	one, others := "API key", "the other API keys"
	switch s.Kind {
	case window.CostCenter:
		one, others = "cost centre", "the other cost centres"
	case window.Agent:
		one, others = "agent", "the other agents"
	}
	if s.ID == window.OtherScope {
		return others
	}
	return one + " " + s.ID
}

func spanishScope(s window.Scope) string {
	one, others := "de la clave de API", "de las demás claves de API"
	switch s.Kind {
	case window.CostCenter:
		one, others = "del centro de coste", "de los demás centros de coste"
	case window.Agent:
		one, others = "del agente", "de los demás agentes"
	}
	if s.ID == window.OtherScope {
		return others
	}
	return one + " " + s.ID
}
