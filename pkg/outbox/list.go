package outbox

import "github.com/jackc/pgx/v5/pgtype"

// List are the events of one statement: for a writer that changes many rows of its own at once and appends an event for
// each row that did change. That keeps Append's promise, because each event is inserted from a row which the writer's
// INSERT or UPDATE returned: after that row's lock, with a number drawn after it.
//
//	WITH g AS (SELECT * FROM unnest($1::…rows of its own…[], $2::outbox_message[]) AS g(…their columns…, <EventColumns>)),
//	     changed AS (UPDATE … FROM g … RETURNING key),
//	     told AS (<InsertFrom("g JOIN changed USING (key)")>)
//	SELECT key FROM changed
//
// The zero List is empty.
type List struct{ rows Rows }

// EventType is the composite type of a List's members (KnowRows).
const EventType = "outbox_message"

// EventColumns are names for the columns of EventType.
const EventColumns = `outbox_id, outbox_aggregatetype, outbox_aggregateid, outbox_type, outbox_payload, outbox_headers, outbox_topic, outbox_partition,
	outbox_content_type, outbox_signature`

// eventColumns is their number.
const eventColumns = 10

// InsertFrom is the statement that appends the events of a FROM clause which has EventColumns. A row with an empty
// outbox_id has no event. The slot is the column's default, read once for all rows.
func InsertFrom(from string) string {
	return `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, topic, partition, content_type, signature, slot)
	SELECT ` + EventColumns + `, (SELECT current FROM outbox_slot)
	FROM ` + from + ` WHERE outbox_id <> ''`
}

// Grow makes room for so many further events of so many bytes together of payload, so that nothing is moved.
func (l *List) Grow(events, bytes int) { l.rows.Grow(events, eventColumns, bytes+events*named) }

// named is more than ids, names and headers of most events have, in bytes.
const named = 400

// Add puts e at the end of the list, or a place without an event for nil. It refuses what Append refuses, and adds nothing
// then.
func (l *List) Add(e *Event) error {
	if e == nil {
		e = &Event{}
	} else if err := e.Check(); err != nil {
		return err
	}
	l.rows.Begin(eventColumns)
	l.rows.Text(e.ID)
	l.rows.Text(e.AggregateType)
	l.rows.Text(e.AggregateID)
	l.rows.Text(e.Type)
	l.rows.Bytea(e.Payload)
	h := e.split()
	if h.others > 0 {
		l.rows.jsonb(e.appendOthers)
	} else {
		l.rows.null(pgtype.JSONBOID)
	}
	l.rows.OptionalText(e.Topic)
	l.rows.OptionalInteger(e.Partition)
	l.rows.OptionalText(h.contentType)
	l.rows.OptionalText(h.signature)
	l.rows.End()
	return nil
}

// Rows is the parameter of the type outbox_message[].
func (l *List) Rows() *Rows { return &l.rows }
