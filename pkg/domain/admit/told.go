package admit

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/domain/ladder"
)

// Told is what a text for the end user is made from: it says which mode the
// tenant is in, and names the steps of its ladder.
type Told struct {
	Rung        ladder.Rung
	PercentUsed int64 // of the day ceiling, floored
	Thresholds  ladder.Thresholds
	// Saving: a cheaper model was granted. A plan that names none, or none for
	// this model, has a saving mode without one.
	Saving   bool
	Language ladder.Language
	// Own are the plan's own texts in that language; they stand in for the
	// built-in ones.
	Own ladder.Texts
}

// Message is the text of an admitted call, and of a refusal that the mode
// itself explains (read_only_mode).
func (t Told) Message() string { return t.with(t.mode()) }

// Deferred is the text of a write that is refused on rung 2 (tool_deferred).
func (t Told) Deferred() string { return t.with(t.words().deferred + " " + t.mode()) }

// Cut is the text of a refusal for a window of dollars: which one is used up.
func (t Told) Cut(window Limit) string {
	w := t.words()
	return t.ofWindow(window, w.minute, w.day, w.month)
}

// Unfit is the text of a refusal for a window of dollars that has something
// left, but not enough for the call.
func (t Told) Unfit(window Limit) string {
	w := t.words()
	return t.ofWindow(window, w.unfitMinute, w.unfitDay, w.unfitMonth)
}

// ofWindow is the plan's own text of a cut, or the one for the window; of what
// is no window of dollars, that of the mode.
func (t Told) ofWindow(window Limit, minute, day, month string) string {
	t.Rung = ladder.Cut
	switch {
	case t.Own.Cut != "":
		return t.with(t.Own.Cut)
	case window == LimitMinute:
		return t.with(minute)
	case window == LimitDay:
		return t.with(day)
	case window == LimitMonth:
		return t.with(month)
	default:
		return t.Message()
	}
}

// with adds how much is used and where the steps are.
func (t Told) with(mode string) string {
	b := append(make([]byte, 0, 192), mode...)
	return string(numbered(append(b, ' '), t.words().steps, t.PercentUsed, int64(t.Thresholds[0]), int64(t.Thresholds[1]), int64(t.Thresholds[2])))
}

// numbered appends text with its verbs %d and %% filled in: what Sprintf does,
// which costs more than the rest of an answer.
func numbered(b []byte, text string, numbers ...int64) []byte {
	for {
		before, verb, more := strings.Cut(text, "%")
		b = append(b, before...)
		switch {
		case !more || verb == "":
			return b
		case verb[0] == 'd' && len(numbers) > 0:
			b, numbers = strconv.AppendInt(b, numbers[0], 10), numbers[1:]
		default:
			b = append(b, verb[0])
		}
		text = verb[1:]
	}
}

func (t Told) mode() string {
	if own := t.Own.Of(t.Rung); own != "" {
		return own
	}
	w := t.words()
	switch {
	case t.Rung == ladder.Normal:
		return w.normal
	case t.Rung == ladder.Caching:
		return w.caching
	case t.Rung == ladder.Saving && t.Saving:
		return w.saving
	case t.Rung == ladder.Saving:
		return w.waiting
	case t.Rung == ladder.ReadOnly && t.Saving:
		return w.readOnlySaving
	case t.Rung == ladder.ReadOnly:
		return w.readOnly
	default:
		return w.cut
	}
}

// words are the built-in texts of one language; steps has four verbs: percent
// used, and the three steps.
type words struct {
	normal, caching, saving, waiting, readOnly, readOnlySaving, cut string
	minute, day, month, unfitMinute, unfitDay, unfitMonth           string
	deferred, steps                                                 string
}

func (t Told) words() words {
	if t.Language == ladder.Spanish {
		return words{
			normal:         "Modo normal.",
			caching:        "Modo de caché: las respuestas pueden venir de una caché.",
			saving:         "Modo de ahorro: responde un modelo más económico y las acciones con efectos esperan.",
			waiting:        "Modo de ahorro: las acciones con efectos esperan.",
			readOnly:       "Modo de solo lectura: se puede buscar, pero no enviar ni pagar.",
			readOnlySaving: "Modo de solo lectura: se puede buscar, pero no enviar ni pagar; responde un modelo más económico.",
			cut:            "El presupuesto está agotado.",
			minute:         "El presupuesto de este minuto está agotado; se libera por sí solo en un minuto.",
			day:            "El presupuesto de hoy está agotado.",
			month:          "El presupuesto de este mes está agotado.",
			unfitMinute:    "Esta llamada no cabe en lo que queda del presupuesto de este minuto; se libera por sí solo en un minuto.",
			unfitDay:       "Esta llamada no cabe en lo que queda del presupuesto de hoy.",
			unfitMonth:     "Esta llamada no cabe en lo que queda del presupuesto de este mes.",
			deferred:       "Esta acción no se ha hecho ni queda en cola: hay que repetirla cuando el presupuesto lo permita.",
			steps:          "Se ha usado el %d %% del presupuesto de hoy; los escalones están en el %d, el %d y el %d %%.",
		}
	}
	return words{
		normal:         "Normal mode.",
		caching:        "Caching mode: answers may come from a cache.",
		saving:         "Saving mode: a cheaper model answers, and actions with side effects wait.",
		waiting:        "Saving mode: actions with side effects wait.",
		readOnly:       "Read-only mode: searching works, sending and paying do not.",
		readOnlySaving: "Read-only mode: searching works, sending and paying do not; a cheaper model answers.",
		cut:            "The budget is used up.",
		minute:         "This minute's budget is used up; it frees by itself within a minute.",
		day:            "Today's budget is used up.",
		month:          "This month's budget is used up.",
		unfitMinute:    "This call does not fit what is left of this minute's budget; it frees by itself within a minute.",
		unfitDay:       "This call does not fit what is left of today's budget.",
		unfitMonth:     "This call does not fit what is left of this month's budget.",
		deferred:       "This action was not taken and is not queued: try it again when the budget allows it.",
		steps:          "%d %% of today's budget is used; the steps are at %d, %d and %d %%.",
	}
}
