// Package breaker ends executions that cost, call or nest more than their tenant's contract allows.
//
// It owns: executions.revoked.v1, and the termination events of source weir/breaker. It does not own the thresholds (the
// tenant's contract), the decision (pkg/domain/breaker), or what a revocation does (admission).
//
// It reads two topics under a group each: the journal, for what was spent whether or not anybody asked, and admission's
// decisions, for refusals of an execution. The one cannot know of the other's partitions; inside a process they meet in
// one set of revoked roots, under one lock.
//
// Invariants:
//   - A trip is published before the offset of what caused it is committed: first the termination event, then the
//     revocation. A crash between them, or before the commit, repeats them.
//   - What is repeated changes nothing: the event's id is termination:<root>, so the ledger books it once, and the
//     revocation is keyed by tenant and root. A root that executions.revoked.v1 names is not published again.
//   - Every time written is that of the cause, never this process' clock.
//   - State is a fold of the journal: on assignment of a partition it is read again from Config.MaxRootAge before the
//     committed offset. Each entry id counts once.
//
// Bounds: Config.MaxExecutions roots in memory; at the bound those silent for longer than Config.MaxRootAge are forgotten,
// and if there are none the partition stops with an error. Revoked roots are bounded by their topic's retention.
package breaker
