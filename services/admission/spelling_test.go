//go:build integration

package admission

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/usageevent"
)

// Goal: a provider is the same one in whatever case and with whatever blanks around it is named: for the price, for a repeat, for a
// kill, and in the event.
func TestProviderInAnyCase(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	for id, provider := range map[string]string{"r1": "OpenAI", "r2": " openai\t", "r3": "OPENAI"} {
		status, first := r.reserve("acme", id, 5, object{"provider": provider})
		w.want(provider, status, first, 201)
		status, again := r.reserve("acme", id, 5)
		w.want("the same in small letters", status, again, 200, "receipt", fmt.Sprint(first["receipt"]))
		status, out := r.settle("acme", id, object{"usage": object{"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3}})
		w.want("settle", status, out, 200, "cost_usd", "0.03")
	}
	status, out := r.reserve("acme", "r4", 5, object{"provider": "  "})
	w.want("blanks", status, out, 400, "field", "provider")
	for _, row := range w.outboxRows() {
		if ev, err := usageevent.Decode(row.payload, nil); err != nil || ev.Data.Provider != "openai" {
			t.Errorf("%v %+v", err, ev)
		}
	}
	w.kill(admit.Kill{Scope: admit.KillProvider("openai"), On: true, Version: 1})
	w.eventually("killed", func() error {
		if status, out := r.reserve("acme", "r5", 5, object{"provider": "OpenAI"}); status != 503 || out["code"] != "killed" {
			return fmt.Errorf("%d %v", status, out)
		}
		return nil
	})
}
