// Package money owns exact amounts: what a number of dollars is, how it is
// read, written and rounded.
//
// It owns: USD (an amount), Nano (an amount as a whole number of
// nano-dollars, for counters), Percent (a markup) and Decimal (a quantity or
// a rate). It does not own prices, meters or budgets. It is the only domain
// package that knows which decimal library is underneath.
//
// Invariants:
//   - No binary floating point, anywhere.
//   - The rounding rule, stated once, here: each priced line (quantity × rate,
//     or raw × markup) is rounded half-even to 18 fractional digits, the scale
//     of the ledger's Decimal(38,18); totals are plain sums of rounded lines
//     and are never rounded again. So the parts always add up to the whole.
//   - A reservation rounds up to the next nano-dollar (CeilNano), away from
//     zero, so that a counter can only err on the safe side, and a reversal
//     of an amount cancels it exactly.
//   - A number has one form: an int64 with a power of ten where that suffices
//     (18 digits), a library decimal elsewhere. Both give the same digits.
//   - Text is plain decimal, without exponent and without trailing zeros. What
//     is read may have an exponent too, as price files do: the grammar is that
//     of JSON's numbers, the same for all types and wherever a text comes from,
//     and so without a plus sign.
//
// All types are values: copying is cheap, methods never change the receiver,
// and the zero value is zero. Compare with Cmp, not ==.
package money
