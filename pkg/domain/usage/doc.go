// Package usage owns what one call consumed: it turns a provider's own usage
// report into disjoint meters.
//
// It owns: the names of the meters, and per provider which count includes
// which other. It does not own prices (package pricing) nor who pays.
//
// Invariants:
//   - Meters are disjoint: no token is in two meters. The meters named
//     input_*_tokens add up to the whole prompt, which is ContextTokens.
//   - A missing usage block gives no meters and the flag usage_missing. It is
//     never zero usage.
//   - Counts are never negative: a part larger than its whole is ErrNegative.
//   - Normalise is a pure function of its arguments; a change of its results
//     raises NormaliserVersion, which is stored next to the raw usage.
//
// Bounds: a payload has at most MaxPayload bytes, a stream MaxChunks chunks,
// a quantity is below 2^53.
package usage
