package outbox

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// WriterGrants are the least rights of a role that appends: it may name the event and the slot (InsertFrom does; which one it
// is has no meaning), but neither its transaction nor its number, and it reads nothing of others.
func WriterGrants(role string) []string {
	r := pgx.Identifier{role}.Sanitize()
	return []string{
		"GRANT INSERT (id, aggregatetype, aggregateid, type, payload, headers, topic, partition, content_type, signature, slot) ON outbox TO " + r,
		"GRANT SELECT ON outbox_slot TO " + r,
	}
}

// RelayGrants are the least rights of the relay's role. It cannot change or delete a single row of the outbox: emptying
// a whole slot is its only way of removing.
func RelayGrants(role string) []string {
	r := pgx.Identifier{role}.Sanitize()
	grants := []string{
		"GRANT SELECT ON outbox TO " + r,
		"GRANT SELECT, UPDATE ON outbox_slot TO " + r,
		"GRANT SELECT, INSERT, UPDATE ON outbox_cursor TO " + r,
		"GRANT SELECT, INSERT ON outbox_parked TO " + r,
	}
	for slot := range slots {
		grants = append(grants, fmt.Sprintf("GRANT SELECT, TRUNCATE ON outbox_%d TO %s", slot, r))
	}
	return grants
}
