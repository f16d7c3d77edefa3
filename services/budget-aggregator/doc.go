// Package budgetaggregator folds the journal into window totals and publishes them.
//
// It owns: budget.windows.v1, every key of it, and the window table in ClickHouse, which its sink fills from that topic.
// It does not own: which windows an entry counts in (the attributor stamps them), what an entry adds (ledger.Entry.Delta),
// or what a total means for a budget (admission).
//
// Invariants:
//   - A published total of version v is the sum over all entries of its key at journal offsets below v, each id once. So
//     any two records with the same key and version say the same, whoever wrote them, and batch borders leave no trace.
//   - Totals are published, and acknowledged, before the offsets of what they contain are committed: a restart folds
//     again what was not committed, and each key skips what its version already contains.
//   - An output partition has the number of its input partition, and its owner restores from it. What a dead owner
//     overwrote is written again; where compaction may have taken the newer record, the partition is folded again from
//     the start of the journal.
//   - At a marker that raises an epoch the totals as of the marker are published under keys of their own, then the end of
//     this base, before anything behind the marker is folded: the base too is a pure function of the journal. Whoever reads
//     totals of now passes records with a base_epoch over. Bases of earlier epochs are removed.
//   - The total of a branch has no entry that was recorded more than 9 days after its event, and leaves memory and output
//     when nothing came for it in 17 days (branch.go): all others stay.
//   - The sink writes a row at least once and the table keeps the highest version of a key.
//
// Bounds: Config.MaxWindows totals in memory (about 400 bytes each); at the bound the partition stops with an error, and
// goes on when the bound is raised. The id filter is that of pkg/journal. One publication per batch.
package budgetaggregator
