package litellm

import (
	"cmp"
	"slices"
)

// Kinds of oddity. Those marked (not imported) mean that the field had no
// effect; the others were imported as they stand.
const (
	Skipped      = "skipped"          // not a model, or unusable: the row is not imported
	Unmapped     = "unmapped"         // no rule for the field (not imported)
	NotUSD       = "not_usd"          // a price in another unit of account (not imported)
	BadValue     = "bad_value"        // not a number, or negative (not imported)
	Duplicate    = "duplicate"        // the same price under a second name (not imported)
	Conflict     = "conflict"         // two names, two prices: the dearer one is imported
	Placeholder  = "placeholder"      // a zero beside the real price (not imported)
	Misnamed     = "misnamed"         // imported under the meaning it must have
	Approximated = "approximated"     // the book cannot say it: dearest case imported
	FloatNoise   = "float_noise"      // digits of a binary float
	Implausible  = "implausible"      // far outside what such prices are
	TierMissing  = "tier_missing"     // a tier prices one side only
	TierEqual    = "tier_equals_base" // a tier that costs the same
	TierRatio    = "tier_ratio"       // a tier's discount differs between meters
	RateMissing  = "rate_missing"     // a rate that this provider is known to have
	Free         = "free"             // every price is zero
)

// Oddity is one thing in the file that a person should look at. Field is
// empty when it concerns the whole row.
type Oddity struct {
	Row, Field, Kind, Reason string
}

func sortOddities(odd []Oddity) {
	slices.SortStableFunc(odd, func(a, b Oddity) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Kind, b.Kind))
	})
}
