// Package catalog carries billing's data: tenants, API keys, signing keys and prices, between their compacted topics
// and the values that services decide with.
//
// It owns the conversion in both directions and a current, in-memory copy per process (fed by bus.Follower, so every
// replica has all of it; bounded by the topics, which are compacted). It owns no decision.
//
// Invariants: readers get immutable values; a record that does not decode leaves the last good value in place and is
// told to its Bad, because refusing a whole catalog for one bad value would stop every tenant.
package catalog
