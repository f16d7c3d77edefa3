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
		return t.with(fmt.Sprintf("El presupuesto %s %s está agotado.", spanishScope(scope), spanishWindow(limit)))
	}
	return t.with(fmt.Sprintf("The budget of %s for %s is used up.", englishScope(scope), englishWindow(limit)))
}

// UnfitOf is Unfit of a sub-scope.
func (t Told) UnfitOf(scope window.Scope, limit Limit) string {
	if t.Language == ladder.Spanish {
		return t.with(fmt.Sprintf("Esta llamada no cabe en lo que queda del presupuesto %s %s.", spanishScope(scope), spanishWindow(limit)))
	}
	return t.with(fmt.Sprintf("This call does not fit what is left of the budget of %s for %s.", englishScope(scope), englishWindow(limit)))
}

func englishWindow(limit Limit) string {
	switch limit {
	case LimitMinute:
		return "this minute"
	case LimitDay:
		return "today"
	default:
		return "this month"
	}
}

func spanishWindow(limit Limit) string {
	switch limit {
	case LimitMinute:
		return "para este minuto"
	case LimitDay:
		return "para hoy"
	default:
		return "para este mes"
	}
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
