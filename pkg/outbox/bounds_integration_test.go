//go:build integration

package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-project/weir/pkg/outbox"
)

// Goal: the table refuses what docs/outbox.md says, whoever writes to it, and Check the same. Method: each bound, and one byte
// above it, by plain SQL; a value that is refused must be by the domain's own word, so that its writer finds it.
func TestBounds(t *testing.T) {
	w := connect(t, database(t))
	long := func(n int) string { return strings.Repeat("x", n) }
	headers := func(n int) map[string]string { // whose JSON is n bytes long
		return map[string]string{"h": long(n - len(`{"h": ""}`))}
	}
	for name, c := range map[string]struct {
		change func(*outbox.Event)
		broken string // the constraint, "" for none
	}{
		"payload":           {func(e *outbox.Event) { e.Payload = []byte(long(1_000_000)) }, ""},
		"large payload":     {func(e *outbox.Event) { e.Payload = []byte(long(1_000_001)) }, "outbox_payload_bytes"},
		"id":                {func(e *outbox.Event) { e.ID = long(1_000) }, ""},
		"large id":          {func(e *outbox.Event) { e.ID = long(1_001) }, "outbox_name_bytes"},
		"large id in bytes": {func(e *outbox.Event) { e.ID = strings.Repeat("é", 501) }, "outbox_name_bytes"},
		"large key":         {func(e *outbox.Event) { e.AggregateID = long(1_001) }, "outbox_name_bytes"},
		"large kind of key": {func(e *outbox.Event) { e.AggregateType = long(1_001) }, "outbox_name_bytes"},
		"large type":        {func(e *outbox.Event) { e.Type = long(1_001) }, "outbox_name_bytes"},
		"no id":             {func(e *outbox.Event) { e.ID = "" }, "outbox_name_check"},
		"topic":             {func(e *outbox.Event) { e.Topic = long(1_000) }, ""},
		"large topic":       {func(e *outbox.Event) { e.Topic = long(1_001) }, "outbox_text_bytes"},
		"content type":      {func(e *outbox.Event) { e.Headers = map[string]string{"content-type": long(1_000)} }, ""},
		"large media type":  {func(e *outbox.Event) { e.Headers = map[string]string{"content-type": long(1_001)} }, "outbox_text_bytes"},
		"large signature":   {func(e *outbox.Event) { e.Headers = map[string]string{"weir-signature": long(1_001)} }, "outbox_text_bytes"},
		"headers":           {func(e *outbox.Event) { e.Headers = headers(16_000) }, ""},
		"large headers":     {func(e *outbox.Event) { e.Headers = headers(16_001) }, "outbox_headers_bytes"},
		"no header's name":  {func(e *outbox.Event) { e.Headers = map[string]string{"": "x"} }, "outbox_headers_named"},
	} {
		e := outbox.Event{ID: "e", AggregateType: "tenant", AggregateID: "acme", Type: "t", Payload: []byte("{}")}
		c.change(&e)
		others := map[string]string{}
		for h, v := range e.Headers {
			if h != "content-type" && h != "weir-signature" {
				others[h] = v
			}
		}
		_, err := w.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, topic, content_type, signature)
			VALUES ($1::text, $2::text, $3::text, $4::text, $5::bytea, $6::jsonb, nullif($7::text, ''), nullif($8::text, ''), nullif($9::text, ''))`,
			e.ID, e.AggregateType, e.AggregateID, e.Type, e.Payload, others, e.Topic, e.Headers["content-type"], e.Headers["weir-signature"])
		broken := ""
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
			broken = refused.ConstraintName
		}
		if broken != c.broken || (err == nil) != (broken == "") {
			t.Errorf("%s: %v; want %q", name, err, c.broken)
		}
		if err := e.Check(); (err == nil) != (c.broken == "") {
			t.Errorf("%s: Check says %v", name, err)
		}
	}
}
