package costattributor

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/usageevent"
	"github.com/weir-project/weir/pkg/usageevent/consumed"
)

// Goal: the dead letter of an event without usage says what was there instead.
func TestWhatIsMissingIsSaid(t *testing.T) {
	w := newWorld(t, true)
	ev := call("e1")
	ev.Data.Usage = []byte(`{"tokens_in":3}`)
	if _, reason := w.send(w.record(usageevent.Encode(ev), ev.Subject)); reason != string(consumed.NoUsage) {
		t.Fatalf("reason %q", reason)
	}
	if detail, _ := w.dead[0].Header(headerDetail); !strings.Contains(string(detail), `"tokens_in", and the status is not`) {
		t.Errorf("detail %s", detail)
	}
}
