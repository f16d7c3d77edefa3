package usage

import "errors"

// The errors of Normalise and ParseMeters; each is wrapped with its context.
// All of them are permanent: the same input fails again.
var (
	// ErrUnknownAPI says that no rule exists for the provider and api.
	ErrUnknownAPI = errors.New("unknown provider api")
	// ErrMalformed says that the payload is not what the api returns.
	ErrMalformed = errors.New("malformed usage")
	// ErrNegative says that a count is below zero or a part exceeds its whole.
	ErrNegative = errors.New("negative usage")
	// ErrTooLarge says that a stated bound is exceeded.
	ErrTooLarge = errors.New("usage exceeds a bound")
	// ErrAggregate says that the payload sums up calls which are billed on
	// their own: an agent's span, not a model's.
	ErrAggregate = errors.New("aggregate of other calls")
	// ErrUnknownMeter says that a direct meter does not exist.
	ErrUnknownMeter = errors.New("unknown meter")
)
