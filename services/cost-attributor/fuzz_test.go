package costattributor

import (
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/usageevent"
)

// FuzzHandle: whatever a producer writes, the record is booked, known, moved or dead (I4), and the partition goes on.
func FuzzHandle(f *testing.F) {
	f.Add(usageevent.Encode(call("e1")), "", "")
	f.Add([]byte(`{"meters":{"input_tokens":5}}`), "weir-signature", "v1=00")
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","subject":"acme","data":{"provider":"anthropic","model":"m","usage":{"input_tokens":-1}}}`), "", "")
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"b","type":"weir.usage.v1","subject":"acme","data":{"provider":"openai","model":"gpt-4o","usage":{"prompt_tokens":9e15}}}`), "content-type", "application/cloudevents+json")
	f.Fuzz(func(t *testing.T, value []byte, key, header string) {
		w := newWorld(t, true)
		r := w.record(value, "acme")
		if key != "" {
			r.Headers = append(r.Headers, bus.Header{Key: key, Value: []byte(header)})
		}
		for range 2 {
			r.Offset = w.offset
			w.offset++
			before := len(w.journal) + len(w.dead) + len(w.moved)
			claim := bus.NewClaim(topics.UsageEvents, r.Partition, 1, nil)
			if err := w.a.handle(t.Context(), claim, []bus.Record{r}); err != nil {
				t.Fatalf("%q stops the partition: %v", value, err)
			}
			if after := len(w.journal) + len(w.dead) + len(w.moved); after != before+1 && len(w.journal) != 1 {
				t.Fatalf("%q vanished", value)
			}
		}
		if len(w.journal) > 1 {
			t.Fatalf("%q was booked twice", value)
		}
	})
}
