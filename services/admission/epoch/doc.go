// Package epoch is whether one replica of admission may serve: it watches which life of Redis Postgres says is the right one,
// asks Redis which one it is in, and raises the epoch where counters are lost (ADRs 0009 and 0015).
//
// It owns: how old a reading may be, what a replica tells the others and which of them it believes, and when a loss is one. It
// does not own: the verdict on a Redis (pkg/domain/recovery), the row (pkg/pgstore), what Redis is asked (pkg/budgetstore), how
// lost counters are made anew, and what callers are told (services/admission).
//
// Invariants:
//   - Nobody is served by a reading that is older than 2 s, nor before BeforeServing has done its part.
//   - An epoch is raised only for what a new connection sees too, and not for a Redis that this replica alone was led to.
//   - A replica of which Redis would take no reservation, by its own answer or by the clocks, says so (Unfit).
//   - A Redis that was read to be a replica serves nobody until it is read to be a master, and judged.
//   - A replica that turns out to be of an earlier build than the counters never serves again.
//
// Bounds: one reading at a time is shared by the calls that wait for it; one loss at a time waits to be confirmed, and what is
// lost besides is noticed by the next call.
package epoch
