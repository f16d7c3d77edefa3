// Package costattributor turns usage events into ledger entries: it decides who pays, what was used, what it costs and
// whether it was counted before, and writes the journal, which the ledger sink in this process copies into ClickHouse.
//
// It owns: usage.events.v1 as a reader, ledger.entries.v1 and usage.deadletter.v1 as the only writer, and the ledger sink.
// The rules are elsewhere: pkg/usageevent (what an event is), pkg/domain/usage and pricing (what it costs),
// pkg/domain/ledger (what it means for the books).
//
// Invariants:
//   - Every record read ends in the journal, in the dead letter with its reason and its own bytes, in another partition of
//     the same topic, or is known already. Nothing is skipped.
//   - The tenant comes from a signature or an execution token; from the event itself only where the topic is configured as
//     trusted. No tenant: dead letter.
//   - The journal is written, with acks from all replicas, before offsets are committed; the state of a partition is the fold
//     of its journal, so a restart decides as the process before it.
//
// Bounds: Config.MaxIDs events are remembered per partition; at the bound the partition stops with an error.
package costattributor
