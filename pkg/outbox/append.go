package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The bounds of an event, in bytes: those of the table (migrations/postgres/0011_outbox_bounds), whoever writes to it. Together
// they stay below the record bound of usage.events.v1 (1 MiB), so that what the table takes, the broker takes.
const (
	// MaxPayload bounds the payload.
	MaxPayload = 1_000_000
	// MaxName bounds each id, type and topic, and each of the two headers that are columns.
	MaxName = 1_000
	// MaxHeaders bounds the other headers together, as the text of a JSON object.
	MaxHeaders = 16_000
)

// ErrTooLarge is an event above a bound. Nothing was inserted; retrying cannot help.
var ErrTooLarge = errors.New("outbox: event too large")

// Event is one row of the outbox.
type Event struct {
	// ID names the event for ever and becomes the record header "id". Two rows with the same ID are two records;
	// readers drop the second.
	ID string
	// AggregateType says what AggregateID names, e.g. "tenant". Debezium routes by it; our relay does not.
	AggregateType string
	// AggregateID is the record key, and the key whose commit order is kept. For usage events it is the tenant.
	AggregateID string
	// Type is the event type, e.g. "weir.usage.v1".
	Type string
	// Topic is a declared topic's name; "" is usage.events.v1.
	Topic string
	// Partition overrides the partition which AggregateID hashes to; nil is the rule.
	Partition *int32
	// Payload is the record value, kept to the byte.
	Payload []byte
	// Headers are further record headers; "id" is set from ID and must not be among them.
	Headers map[string]string
}

const insertEvent = `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, topic, partition, content_type, signature)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bytea, nullif($6::text, '')::jsonb, nullif($7::text, ''), $8::integer, nullif($9::text, ''), nullif($10::text, ''))`

// Append inserts e within the caller's transaction: it is published if and only if tx commits. Call it last, and after
// tx has locked whatever serialises the writers of e.AggregateID, for that lock is what makes the order per key.
// An event that breaks a bound or lacks a name is refused before anything is sent; tx stays usable then.
func Append(ctx context.Context, tx pgx.Tx, e Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	payload := e.Payload
	if payload == nil {
		payload = []byte{} // not NULL
	}
	h, others := e.split(), ""
	if h.others > 0 {
		others = string(e.appendOthers(nil))
	}
	_, err := tx.Exec(ctx, insertEvent, e.ID, e.AggregateType, e.AggregateID, e.Type, payload, others, e.Topic, e.Partition, h.contentType, h.signature)
	if err != nil {
		return fmt.Errorf("outbox: append %s: %w", e.ID, err)
	}
	return nil
}

// Check says why Append would refuse e, without asking the database; nil if it would not.
func (e Event) Check() error {
	for _, f := range [...]struct{ name, value string }{
		{"id", e.ID}, {"aggregatetype", e.AggregateType}, {"aggregateid", e.AggregateID}, {"type", e.Type}, {"topic", e.Topic},
	} {
		if f.value == "" && f.name != "topic" {
			return fmt.Errorf("outbox: event %.80q without %s", e.ID, f.name)
		}
		if len(f.value) > MaxName {
			return fmt.Errorf("%w: %s of %.80q has %d bytes of %d", ErrTooLarge, f.name, e.ID, len(f.value), MaxName)
		}
	}
	if e.Partition != nil && *e.Partition < 0 {
		return fmt.Errorf("outbox: event %s: partition %d", e.ID, *e.Partition)
	}
	if len(e.Payload) > MaxPayload {
		return fmt.Errorf("%w: %s has %d bytes of %d", ErrTooLarge, e.ID, len(e.Payload), MaxPayload)
	}
	return e.checkHeaders()
}
