package admission

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/gen/admissionv1"
)

// Goal: whatever bytes a client sends, a request either is refused or becomes what JSON could have said too: quantities that
// are numbers, usage that is JSON, events that decode.
func FuzzGRPCRequests(f *testing.F) {
	for _, m := range []proto.Message{
		&admissionv1.ReserveRequest{ReservationId: "r1", Provider: "openai", Model: "gpt-4o", Estimate: map[string]string{"input_tokens": "12", "x": "1e"}},
		&admissionv1.SettleRequest{ReservationId: "r1", Usage: []byte(`{"prompt_tokens":1}`), Meters: map[string]string{"output_tokens": "-0.5"}},
		&admissionv1.StartExecutionRequest{AgentId: "a", MaxCostUsd: proto.String("1e400"), MaxDepth: proto.Int64(-1)},
		&admissionv1.SendEventsRequest{Events: [][]byte{[]byte(`{"specversion":"1.0","id":"e","source":"s","type":"weir.usage.v1","data":{}}`), nil}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		numbers := func(q quantities) {
			for name, n := range q {
				if _, err := json.Marshal(n); err != nil {
					t.Errorf("%s: %q is no number", name, n)
				}
			}
		}
		var reserve admissionv1.ReserveRequest
		if proto.Unmarshal(raw, &reserve) == nil && checkMessage(&reserve) == nil {
			if req, p := reserveRequestOf(&reserve); p == nil {
				numbers(req.Estimate)
				_ = req.check()
			}
		}
		var settle admissionv1.SettleRequest
		if proto.Unmarshal(raw, &settle) == nil && checkMessage(&settle) == nil {
			if req, p := settleRequestOf(&settle); p == nil {
				numbers(req.Meters)
				if req.Usage != nil && !json.Valid(req.Usage) {
					t.Errorf("usage %q", req.Usage)
				}
				_ = req.check()
			}
		}
		var execution admissionv1.StartExecutionRequest
		if proto.Unmarshal(raw, &execution) == nil {
			if req, p := executionRequestOf(&execution); p == nil {
				_ = req.check()
			}
		}
		var events admissionv1.SendEventsRequest
		if proto.Unmarshal(raw, &events) == nil {
			if list, p := eventsOf(events.GetEvents()); p == nil && len(list) != len(events.GetEvents()) {
				t.Errorf("%d of %d events", len(list), len(events.GetEvents()))
			}
		}
	})
}
