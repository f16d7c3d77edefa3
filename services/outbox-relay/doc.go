// Package outboxrelay publishes the rows of a Postgres outbox to Kafka and forgets them afterwards.
//
// It owns the loop read → publish → record and nothing else: what a row is and which order holds is pkg/outbox's, what
// an acknowledgement is, pkg/bus's. It consumes no topic and keeps no state outside the database that it drains.
//
// Invariants:
//   - The cursor moves only after every row before it is acknowledged by all in-sync replicas, or parked.
//   - Per key, first publications are in commit order. A row may be published again (crash, take-over, time-out);
//     readers drop it by its id.
//   - A row that Kafka could never take is parked with a reason and counted; every other failure is waited out.
//   - Any number of copies may run; one leads, the others stand by and take over when its connection is gone.
//
// Bounds: one batch in memory (Config.BatchRows, Config.BatchBytes), one connection to lead and one to measure. While
// Kafka is away the backlog stays in Postgres.
package outboxrelay
