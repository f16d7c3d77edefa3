package ledger

// Flags of what the ladder did (ADR 0011).
const (
	// FlagCacheHit: a cache answered in the provider's stead, so the call cost nothing.
	FlagCacheHit = "cache_hit"
	// FlagDearerModel: the settle named a dearer model than was granted; it is charged at the price of the one named.
	FlagDearerModel = "dearer_model"
)

// FlagTimeBehind: the event was dated long before it was recorded, so it is booked in windows that may have been billed.
const FlagTimeBehind = "time_behind"

// FlagTimeAhead: the event was dated so far after its record that it is booked at the latest time that one may say.
const FlagTimeAhead = "time_ahead"
