// Package pricing owns the price book: what a meter costs, from when, and what
// a usage costs by it.
//
// It owns: price versions and their histories, finding the version for a
// provider, model and time, choosing a rate, and the documented fallbacks. It
// does not own what was used (package usage), rounding (package money), or
// markup and discounts of a tenant, which are a layer above.
//
// Invariants:
//   - Nothing is ever free by accident. A meter with a quantity and no rate is
//     an UnpricedError; a rate of 0 that the book states is a price.
//   - The total is the sum of the lines; each line is quantity × rate, rounded
//     once as package money says, and its Rate is the one really applied.
//   - A rate that is not the meter's own at its own tier names its basis.
//   - Versions are never changed; a version's ID is a hash of its content.
//   - Names match exactly, or exactly after a date suffix is dropped, which is
//     flagged. Never by prefix.
//
// How a rate is chosen:
//   - The threshold is tested on the whole prompt (ContextTokens), strictly
//     greater unless the version says inclusive. Once crossed, every meter
//     takes its rate of that threshold for all of its quantity, or its rate of
//     the next lower threshold where it has none. Graduated versions instead
//     split each meter's own quantity at the thresholds.
//   - A service tier without a rate takes the standard one (flagged), batch
//     takes half of it. Only tokens have tiers and multipliers.
//   - A meter without any rate takes that of its substitute: see substitutes.
//   - Geography and speed multiply all token rates, cached ones included;
//     sources disagree on the cached ones, and this errs on the safe side.
package pricing
