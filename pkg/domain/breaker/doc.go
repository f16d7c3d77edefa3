// Package breaker decides when a root execution has to end.
//
// It owns: what an execution has done so far (State), how a signal changes that, and when a threshold of the tenant's
// contract is passed. It does not own: what a ledger entry counts as, where states are kept, or
// how the end of an execution is made known.
//
// Invariants:
//   - Cost and calls are sums and depth is a maximum: after the same signals in any order they are the same.
//   - One execution trips once: Step on a state that has tripped never gives a second Trip.
//   - A threshold is a limit that may be reached and not passed. 0 is no threshold.
//   - A Trip is a function of the signals and the limits alone; its time is that of the signal.
//
// Bound: a State counts calls of at most MaxParents parents, so it takes at most about 4 kB.
package breaker
