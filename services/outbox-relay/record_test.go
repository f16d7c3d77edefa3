package outboxrelay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/outbox"
)

// Goal: what the table takes, a record holds. Method: a row at all of its bounds, with as many headers as there is room for.
func TestLargestRowIsARecord(t *testing.T) {
	name := strings.Repeat("n", outbox.MaxName)
	row := outbox.Row{Event: outbox.Event{ID: name, AggregateType: name, AggregateID: name, Type: name, Payload: make([]byte, outbox.MaxPayload),
		Headers: map[string]string{"content-type": name, "weir-signature": name}}}
	for i := range outbox.MaxHeaders / len(`"000": "", `) {
		row.Headers[fmt.Sprintf("%03x", i)] = ""
	}
	if err := row.Check(); err != nil {
		t.Error(err)
	}
	if _, reason := record(row, nil, topics.UsageEvents); reason != "" {
		t.Error(reason)
	}
}

// TestRecord: what a row becomes, or why it is parked.
func TestRecord(t *testing.T) {
	two, four := int32(2), int32(4)
	byKey := bus.PartitionFor([]byte("acme"), topics.UsageEvents.Partitions())
	for name, tc := range map[string]struct {
		change    func(*outbox.Row)
		partition int32
		headers   string
		parked    string
	}{
		"plain":              {func(*outbox.Row) {}, byKey, "id=e1", ""},
		"named topic":        {func(r *outbox.Row) { r.Topic = "usage.events.v1" }, byKey, "id=e1", ""},
		"headers are sorted": {func(r *outbox.Row) { r.Headers = map[string]string{"b": "2", "a": "1", "id": "forged"} }, byKey, "id=e1 a=1 b=2", ""},
		"own partition":      {func(r *outbox.Row) { r.Partition = &two }, 2, "id=e1", ""},
		"partition too high": {func(r *outbox.Row) { r.Partition = &four }, 0, "", badPartition},
		"undeclared topic":   {func(r *outbox.Row) { r.Topic = "nowhere" }, 0, "", unknownTopic},
		"another's topic":    {func(r *outbox.Row) { r.Topic = topics.LedgerEntries.Name() }, 0, "", unknownTopic},
		"too large":          {func(r *outbox.Row) { r.Payload = make([]byte, topics.UsageEvents.MaxRecordBytes()) }, 0, "", tooLarge},
		"large header":       {func(r *outbox.Row) { r.Headers = map[string]string{"h": strings.Repeat("x", 1<<20)} }, 0, "", tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			row := outbox.Row{Event: outbox.Event{ID: "e1", AggregateID: "acme", Payload: []byte("{}")}, Seq: 7}
			tc.change(&row)
			out, parked := records([]outbox.Row{row}, []bus.Topic{topics.UsageEvents}, topics.UsageEvents)
			if tc.parked != "" {
				if len(out) != 0 || len(parked) != 1 || parked[0] != (outbox.Parked{Seq: 7, Reason: tc.parked}) {
					t.Fatalf("got %d records, parked %v", len(out), parked)
				}
				return
			}
			if len(out) != 1 || len(parked) != 0 {
				t.Fatalf("got %d records, parked %v", len(out), parked)
			}
			r := out[0]
			var headers []string
			for _, h := range r.Headers {
				headers = append(headers, h.Key+"="+string(h.Value))
			}
			if string(r.Key) != "acme" || string(r.Value) != "{}" || r.Partition != tc.partition || strings.Join(headers, " ") != tc.headers || !r.Timestamp.IsZero() {
				t.Fatalf("got %+v, headers %v", r, headers)
			}
		})
	}
}
