// Package litellm reads LiteLLM's price file (model_prices_and_context_window.json)
// into price versions.
//
// It owns the meaning of that file's fields. It does not own publication:
// versions come out without an effective date and unsealed, for review.
//
// Invariants:
//   - Every field of every row is mapped, is a known non-price field, or is
//     reported as an Oddity. A field that might be a price is never dropped in
//     silence.
//   - Numbers go from their text into decimals, never through binary floats.
//     Float noise in the file is kept as it stands and reported.
//   - The result is a pure function of the bytes: rows in the file's order,
//     oddities by row.
//
// The grammar of a price field is BASE[_above_<N>k_tokens][_<tier>]. The one
// name that only looks like it is cache_creation_input_token_cost_above_1hr,
// whose "above_1hr" is a time to live and part of the base.
package litellm
