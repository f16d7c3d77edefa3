package admit

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Refusal is why a reservation was not admitted. It changed no counter.
type Refusal struct {
	Code  Code
	Limit Limit
	// ScopeKind and ScopeID name the sub-scope or branch whose limit refused; empty: it is
	// the tenant's own, or the root execution's. ScopeID is "~" where values beyond the bound share one.
	ScopeKind window.ScopeKind
	ScopeID   string
	// At is the store's time of the decision.
	At time.Time
	// FreesAt is when the same request could fit by time alone, if nothing
	// else were admitted: for rates, concurrency and the minute. Else zero;
	// ResetsAt knows days and months.
	FreesAt time.Time
	// Window is the label of the day or month that refused, else 0. Where the
	// month is the last 30 days: the day with which, when it leaves, enough is free.
	Window int32
	// Used, Asked and Ceiling are figures of the limit that refused:
	// nano-dollars, tokens, calls or levels. Used + Asked > Ceiling.
	Used, Asked, Ceiling int64
	// DayUsed as in Answer, for the percentage.
	DayUsed money.Nano
}

// Trips reports whether the refusal trips the breaker of the execution. That of a
// branch does not: what a child may not spend is no reason to end its siblings.
func (r Refusal) Trips() bool { return r.Code.Trips() && r.ScopeKind == "" }
