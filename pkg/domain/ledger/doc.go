// Package ledger owns what a usage event means for the books: which entries it makes, and which it must not.
//
// It owns: the Entry (one immutable line of the journal), how an entry is built from priced usage, the transition table of
// reservations (Decide), identity and duplicates, and the State of one partition, which is a fold of its journal.
// It does not own: trust, prices, contracts, windows' borders, storage.
//
// Invariants:
//   - Decide depends on the State and the candidate alone, and State is the fold of Apply over the journal: a process that
//     restarts from the journal decides as the one before it.
//   - An event makes its entries once. Its reversals come before its primary entry in the journal, and only the primary
//     entry makes the event known: a crash between them repeats what is missing and nothing else.
//   - Ids are pure functions of the event and the stage.
//   - Over all entries of an event that has a price, own + external nano-dollars are the counted cost, rounded up; the
//     raw and billed totals are the sums of the lines.
//   - A reversal is the exact negative of what it reverses, in the same windows, and counts as external. An entry is reversed once.
//
// Bound: State keeps for each event ever booked 60 bytes, 130 with a reservation and 260 with a provider's response id too, and
// the entry itself for those that a later message may reverse, and at most window.MaxEach names of sub-scopes for each tenant,
// kind and month. Len, the number of events, is for the owner to bound.
package ledger
