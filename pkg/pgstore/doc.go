// Package pgstore is admission's Postgres: how reservations ended, the limits of executions, and which Redis counters
// must exist.
//
// It owns the tables of migrations/postgres/0002_admission. It does not own the outbox (pkg/outbox), whose rows it
// appends in its own transactions, nor Redis, nor any decision about money: callers bring amounts and answers.
//
// Invariants:
//   - A reservation ends once: the row that is first in decides, whoever comes later reads it. Settle, release and
//     expiry race for this row and for nothing else.
//   - The row and its usage event are one transaction; the event is appended last, under the row's lock.
//   - A row is changed after its end in two ways only: it takes one late figure, and `external` may become `settled`.
//   - Limits of an execution only fall.
//
// Bounds: rows leave after a retention, in batches (Prune). Errors are those of Postgres, wrapped: to the caller every
// one of them means "not known to have happened", and a repeat is safe.
package pgstore
