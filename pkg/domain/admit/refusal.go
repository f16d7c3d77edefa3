package admit

import "time"

// Refusal is why a reservation was not admitted. It changed no counter.
type Refusal struct {
	Code  Code
	Limit Limit
	// At is the store's time of the decision.
	At time.Time
	// FreesAt is when the same request could fit by time alone, if nothing
	// else were admitted: for rates, concurrency and the minute; for day and
	// month the end of the window. Zero where time does not help.
	FreesAt time.Time
	// Used, Asked and Ceiling are figures of the limit that refused:
	// nano-dollars, tokens, calls or levels. Used + Asked > Ceiling.
	Used, Asked, Ceiling int64
	// DayUsed as in Answer, for the percentage.
	DayUsed int64
}
