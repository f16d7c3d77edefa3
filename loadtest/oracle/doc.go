// Package oracle says what the bill must be, from the trace files, the price rows and the scenario alone.
//
// It exists to be wrong independently: it imports nothing of the project, has its own readers, and computes in
// math/big.Rat. It owns no rule: what it repeats is written in the scenario's documentation (loadtest/demo) and in the
// providers' price lists.
//
// Invariants: no figure passes through a binary float; a figure that is not a finite decimal of 18 places is an error.
package oracle
