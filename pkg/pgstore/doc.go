// Package pgstore is admission's Postgres: how reservations ended, the limits of executions, and which Redis counters
// must exist, in which life (epoch) of Redis.
//
// It owns the tables of migrations/postgres/0002_admission, 0003_redis_epoch (with 0008_layout) and 0004_admission_replicas, the
// type reservation_end of 0005_rows, the domains of their columns (0007_reservation_domains) and their indexes
// (0010_reservation_indexes). It does not own the outbox (pkg/outbox), whose rows it appends in its own transactions, nor Redis,
// nor any decision about money: callers bring amounts and answers.
//
// Invariants:
//   - A reservation ends once: the row that is first in decides, whoever comes later reads it. Settle, release and
//     expiry race for this row and for nothing else.
//   - The row and its usage event are one transaction; the event is appended under the row's lock. Ends that come at
//     once share transactions (group commit); one that fails fails no other, and a caller who gave up may have been written.
//   - An end whose amount the settle script is to apply is written only while the epoch of its hold is the one of now.
//   - In the outbox, and so in every partition of usage.events.v1, the markers of an epoch stand behind all ends that knew
//     the one before, and before all that know this one (EpochLock, ADR 0009). An epoch is raised once, has one barrier,
//     and is opened only after it; a seal is used once, and broken by whoever may have written to Redis.
//   - A row is changed after its end in two ways only: it takes one late figure, and `external` may become `settled`.
//   - Limits of an execution only fall.
//
// Bounds: rows leave at most a day after their retention, in batches (Prune); ends that wait for a transaction are bounded (ErrBusy).
// Errors are those of Postgres, wrapped: to the caller every one of them but ErrEpochRaised and ErrBusy means "not known
// to have happened", and a repeat is safe.
package pgstore
