package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/outbox"
)

// TestAppendRefuses lists events that never reach the database: a nil transaction would panic if one did.
func TestAppendRefuses(t *testing.T) {
	good := outbox.Event{ID: "e", AggregateType: "tenant", AggregateID: "acme", Type: "weir.usage.v1"}
	minus := int32(-1)
	for name, tc := range map[string]struct {
		change func(*outbox.Event)
		want   string
	}{
		"no id":              {func(e *outbox.Event) { e.ID = "" }, "without id"},
		"no aggregate type":  {func(e *outbox.Event) { e.AggregateType = "" }, "without aggregatetype"},
		"no aggregate id":    {func(e *outbox.Event) { e.AggregateID = "" }, "without aggregateid"},
		"no type":            {func(e *outbox.Event) { e.Type = "" }, "without type"},
		"negative partition": {func(e *outbox.Event) { e.Partition = &minus }, "partition -1"},
		"header id":          {func(e *outbox.Event) { e.Headers = map[string]string{"id": "x"} }, "set from ID"},
		"header of no name":  {func(e *outbox.Event) { e.Headers = map[string]string{"": "x"} }, "without a name"},
		"large payload":      {func(e *outbox.Event) { e.Payload = make([]byte, outbox.MaxPayload+1) }, "too large"},
		"large id":           {func(e *outbox.Event) { e.ID = strings.Repeat("x", outbox.MaxName+1) }, "too large"},
		"large topic":        {func(e *outbox.Event) { e.Topic = strings.Repeat("x", outbox.MaxName+1) }, "too large"},
		"large signature": {func(e *outbox.Event) {
			e.Headers = map[string]string{"weir-signature": strings.Repeat("x", outbox.MaxName+1)}
		}, "too large"},
		"large header": {func(e *outbox.Event) { e.Headers = map[string]string{"h": strings.Repeat("x", outbox.MaxHeaders)} }, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			e := good
			tc.change(&e)
			err := outbox.Append(t.Context(), nil, e)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if strings.HasPrefix(name, "large") != errors.Is(err, outbox.ErrTooLarge) {
				t.Fatalf("ErrTooLarge: %v", err)
			}
		})
	}
}

// Goal: a list refuses what Append refuses and adds nothing then, and has a place for no event.
func TestList(t *testing.T) {
	var l outbox.List
	good := outbox.Event{ID: "e", AggregateType: "tenant", AggregateID: "acme", Type: "t"}
	bad := good
	bad.AggregateID = ""
	if err := l.Add(&good); err != nil {
		t.Error(err)
	}
	if err := l.Add(&bad); err == nil {
		t.Error("an event without a key was added")
	}
	if err := l.Add(nil); err != nil {
		t.Error(err)
	}
	if n := l.Rows().Len(); n != 2 {
		t.Errorf("%d places", n)
	}
}
