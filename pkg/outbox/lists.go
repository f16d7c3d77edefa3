package outbox

import (
	"fmt"
	"strings"
)

// Lists are the events of one statement, one list per column: for a writer that changes many rows of its own at once and
// appends an event for each row that did change. That keeps Append's promise, because each event is inserted from a row
// which the writer's INSERT or UPDATE returned: after that row's lock, with a number drawn after it.
//
//	WITH g AS (SELECT * FROM unnest(…lists of its own…, <EventArrays(n)>) AS g(…their names…, <EventColumns>)),
//	     changed AS (UPDATE … FROM g … RETURNING key),
//	     told AS (<InsertFrom("g JOIN changed USING (key)")>)
//	SELECT key FROM changed
//
// The zero Lists are empty.
type Lists struct {
	id, aggregateType, aggregateID, eventType, headers, topic []string
	payload                                                   [][]byte
	partition                                                 []*int32
}

// EventColumns are the names of the lists, in the order of EventArrays and Args.
const EventColumns = "outbox_id, outbox_aggregatetype, outbox_aggregateid, outbox_type, outbox_payload, outbox_headers, outbox_topic, outbox_partition"

// EventArrays are the lists as parameters, numbered from first.
func EventArrays(first int) string {
	types := [...]string{"text", "text", "text", "text", "bytea", "text", "text", "integer"}
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, t)
	}
	return strings.Join(list, ", ")
}

// InsertFrom is the statement that appends the events of a FROM clause which has EventColumns. A row with an empty
// outbox_id has no event.
func InsertFrom(from string) string {
	return `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, headers, topic, partition, slot)
	SELECT outbox_id, outbox_aggregatetype, outbox_aggregateid, outbox_type, outbox_payload, outbox_headers::jsonb, nullif(outbox_topic, ''), outbox_partition,
		(SELECT outbox_current_slot()) -- the column's default, once for all rows
	FROM ` + from + ` WHERE outbox_id <> ''`
}

// Add puts e at the end of the lists, or a place without an event for nil. It refuses what Append refuses, and adds
// nothing then.
func (l *Lists) Add(e *Event) error {
	if e == nil {
		e = &Event{}
	} else if err := e.Check(); err != nil {
		return err
	}
	payload, headers, err := e.content()
	if err != nil {
		return err
	}
	l.id, l.aggregateType, l.aggregateID = append(l.id, e.ID), append(l.aggregateType, e.AggregateType), append(l.aggregateID, e.AggregateID)
	l.eventType, l.headers, l.topic = append(l.eventType, e.Type), append(l.headers, headers), append(l.topic, e.Topic)
	l.payload, l.partition = append(l.payload, payload), append(l.partition, e.Partition)
	return nil
}

// Args are the values of EventArrays.
func (l *Lists) Args() []any {
	return []any{l.id, l.aggregateType, l.aggregateID, l.eventType, l.payload, l.headers, l.topic, l.partition}
}
