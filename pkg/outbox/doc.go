// Package outbox is the transactional outbox: the one contract between writers and the relay that is a table.
//
// It owns the tables outbox, outbox_slot, outbox_cursor and outbox_parked (migrations/postgres/0001_outbox,
// 0006_outbox_domains, 0011_outbox_bounds), the columns and the type outbox_message of 0009_outbox_header_columns, the ways a writer appends
// (Append, List), the parameters that are rows (Rows), and the way one relay drains (Session). It does not own Kafka: what
// becomes of a batch is the relay's business, and only Session.Advance says that it was acknowledged.
//
// Invariants:
//   - A committed row is handed out until Advance has recorded it, and is removed only after that.
//   - Rows of one aggregateid are handed out in commit order, given that their writers insert after taking a lock that
//     all writers of that aggregateid take. The order is (tick, seq): a tick is a snapshot, and a row belongs to the
//     first tick in which it is visible. seq alone is not commit order over all keys; under the lock it is for one.
//   - An open transaction delays its own rows and nobody else's, in this database or another one.
//   - A slot is emptied only under a lock that excludes every transaction which wrote to it, after a look that no row
//     in it is unpublished; a transaction that was about to write to it writes to the empty slot, which loses nothing.
//
// Why each holds is written in docs/outbox.md.
package outbox
