package admit

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ladder"
)

// Every text says its mode, how much is used, and the steps as configured, in both languages; the plan's own text stands in
// for the mode alone.
func TestTold(t *testing.T) {
	steps := map[ladder.Language]string{
		ladder.English: " 57 % of today's budget is used; the steps are at 40, 80 and 99 %.",
		ladder.Spanish: " Se ha usado el 57 % del presupuesto de hoy; los escalones están en el 40, el 80 y el 99 %.",
	}
	for _, c := range []struct {
		rung   ladder.Rung
		saving bool
		en, es string
	}{
		{ladder.Normal, false, "Normal mode.", "Modo normal."},
		{ladder.Caching, true, "Caching mode: answers may come from a cache.", "Modo de caché: las respuestas pueden venir de una caché."},
		{ladder.Saving, true, "Saving mode: a cheaper model answers, and actions with side effects wait.", "Modo de ahorro: responde un modelo más económico y las acciones con efectos esperan."},
		{ladder.Saving, false, "Saving mode: actions with side effects wait.", "Modo de ahorro: las acciones con efectos esperan."},
		{ladder.ReadOnly, false, "Read-only mode: searching works, sending and paying do not.", "Modo de solo lectura: se puede buscar, pero no enviar ni pagar."},
		{ladder.ReadOnly, true, "Read-only mode: searching works, sending and paying do not; a cheaper model answers.", "Modo de solo lectura: se puede buscar, pero no enviar ni pagar; responde un modelo más económico."},
		{ladder.Cut, false, "The budget is used up.", "El presupuesto está agotado."},
	} {
		for l, mode := range map[ladder.Language]string{ladder.English: c.en, ladder.Spanish: c.es} {
			told := Told{Rung: c.rung, PercentUsed: 57, Thresholds: ladder.Thresholds{40, 80, 99}, Saving: c.saving, Language: l}
			if got := told.Message(); got != mode+steps[l] {
				t.Errorf("rung %d in %s: %q", c.rung, l, got)
			}
			deferred := map[ladder.Language]string{ladder.English: "This action was not taken and is not queued: try it again when the budget allows it. ", ladder.Spanish: "Esta acción no se ha hecho ni queda en cola: hay que repetirla cuando el presupuesto lo permita. "}
			if got := told.Deferred(); got != deferred[l]+mode+steps[l] {
				t.Errorf("deferred on rung %d in %s: %q", c.rung, l, got)
			}
			told.Own = ladder.Texts{Normal: "Own.", Caching: "Own.", Saving: "Own.", ReadOnly: "Own.", Cut: "Own."}
			if got := told.Message(); got != "Own."+steps[l] {
				t.Errorf("own text on rung %d in %s: %q", c.rung, l, got)
			}
			if got := told.Unfit(LimitMinute); got != "Own."+steps[l] {
				t.Errorf("own text of what does not fit in %s: %q", l, got)
			}
			if got := told.Cut(LimitMonth); got != "Own."+steps[l] {
				t.Errorf("own text of a cut in %s: %q", l, got)
			}
		}
	}
	if got := (Told{}).Message(); !strings.HasPrefix(got, "Normal mode.") { // no language is English
		t.Errorf("%q", got)
	}
}

// What does not fit names its window, and does not say that it is used up.
func TestUnfitNamesItsWindow(t *testing.T) {
	for window, want := range map[Limit][2]string{
		LimitMinute: {"This call does not fit what is left of this minute's budget; it frees by itself within a minute. ",
			"Esta llamada no cabe en lo que queda del presupuesto de este minuto; se libera por sí solo en un minuto. "},
		LimitDay:   {"This call does not fit what is left of today's budget. ", "Esta llamada no cabe en lo que queda del presupuesto de hoy. "},
		LimitMonth: {"This call does not fit what is left of this month's budget. ", "Esta llamada no cabe en lo que queda del presupuesto de este mes. "},
	} {
		for i, l := range ladder.Languages() {
			if got := (Told{Rung: ladder.Caching, Language: l}).Unfit(window); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s in %s: %q", window, l, got)
			}
		}
	}
}

// A cut names its window, wherever the day stands.
func TestCutNamesItsWindow(t *testing.T) {
	for window, want := range map[Limit][2]string{
		LimitMinute: {"This minute's budget is used up; it frees by itself within a minute. ", "El presupuesto de este minuto está agotado; se libera por sí solo en un minuto. "},
		LimitDay:    {"Today's budget is used up. ", "El presupuesto de hoy está agotado. "},
		LimitMonth:  {"This month's budget is used up. ", "El presupuesto de este mes está agotado. "},
		NoLimit:     {"The budget is used up. ", "El presupuesto está agotado. "},
	} {
		for i, l := range ladder.Languages() {
			if got := (Told{Rung: ladder.Caching, Language: l}).Cut(window); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s in %s: %q", window, l, got)
			}
		}
	}
}
