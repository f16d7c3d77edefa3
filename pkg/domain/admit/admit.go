// Package admit owns the decision about one reservation: the values it is
// made from, the order of the refusals, their codes (docs/reference/codes.md) and
// the texts that go with them.
//
// Decide states the rule as a pure function. The script of pkg/budgetstore
// applies the same rule inside Redis, where it is atomic; a test there walks
// both through random histories and compares every answer. This package keeps
// no counter, reads no clock and knows no wire format.
//
// Invariants: a request that fits everything is admitted; used + estimate may
// equal a ceiling, never exceed it; of several failed limits the one that
// must not be retried is reported.
package admit

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Unlimited stands for "no limit" once limits are normalised. It is also the
// largest value of any counter: 2^53 - 1, because counters live in Lua.
const Unlimited = int64(money.MaxNano)

// MaxSkew is how far the caller's clock and the store's may differ.
const MaxSkew = 2 * time.Second

// Apart is by how much a store's clock, read between two instants of the caller's, is ahead (above 0) or behind at the least:
// what an answer took on its way is no difference.
func Apart(store, asked, answered time.Time) time.Duration {
	switch {
	case store.After(answered):
		return store.Sub(answered)
	case store.Before(asked):
		return store.Sub(asked)
	default:
		return 0
	}
}

// ErrInvalid says that a limit or an estimate is out of its range.
var ErrInvalid = errors.New("admit: invalid value")

// ErrLimit is an ErrInvalid that is the contract's, not the call's.
var ErrLimit = fmt.Errorf("%w of a limit", ErrInvalid)

// Ceiling bounds one window of dollars. Used + estimate may reach Cap. For a
// hard window Cap equals Limit; for a soft one it lies above, and between the
// two the ladder degrades instead of refusing.
type Ceiling struct{ Limit, Cap money.Nano }

// Hard is a ceiling that refuses at its limit.
func Hard(limit money.Nano) Ceiling { return Ceiling{Limit: limit, Cap: limit} }

// Soft is a ceiling that degrades at its limit and refuses at limit ×
// (1 + overrun/100), rounded down to a nano-dollar and never below the limit.
func Soft(limit money.Nano, overrun money.Percent) Ceiling {
	exact := money.ApplyMarkup(limit.USD(), overrun)
	above, err := money.CeilNano(exact)
	if err != nil {
		return Ceiling{Limit: limit, Cap: money.MaxNano}
	}
	if above.USD().Cmp(exact) > 0 {
		above--
	}
	return Ceiling{Limit: limit, Cap: max(limit, above)}
}

// Rung is where a window of dollars puts whoever has used so much of it: Cut
// where no call fits, as each asks for a nano-dollar at least, else Normal.
func (c Ceiling) Rung(used money.Nano) ladder.Rung {
	if used >= c.Cap {
		return ladder.Cut
	}
	return ladder.Normal
}

// NoCeiling never refuses below the counter's own bound.
func NoCeiling() Ceiling { return Hard(money.MaxNano) }

// Limits are one tenant's limits, resolved from its plan. Rates are per
// sliding minute, 0 = no limit; Concurrency is mandatory.
type Limits struct {
	Requests, InputTokens, OutputTokens int64
	Concurrency                         int64
	OpenExecutions                      int64 // root executions at a time, 0 = no limit
	Minute, Day, Month                  Ceiling
	// Rolling30: the month is today and the 30 days before.
	Rolling30 bool
	Ladder    ladder.Thresholds
}

// DayRung is where the day puts a tenant that has used so much of it: Cut where
// it refuses every call, else as the ladder has it. What is admitted stands on
// the latter.
func (l Limits) DayRung(used money.Nano) ladder.Rung {
	return max(l.Day.Rung(used), ladder.At(used, l.Day.Limit, l.Ladder))
}

// Estimate is what a call may cost at most.
type Estimate struct {
	Nanos                     money.Nano
	InputTokens, OutputTokens int64
}

// Execution is what a reservation's execution token says. Root "" = no
// execution. Limits of 0 mean no limit; they take effect only where the store
// does not know the root's limits yet.
type Execution struct {
	Root  string
	Depth int64 // 0 at the root
	ExecutionLimits
	// Branches are those that the call counts in, from the root's side down, at most MaxBranches. Their limits always hold.
	Branches []Branch
}

// ExecutionLimits bound one root execution with all its descendants; 0 = no limit.
type ExecutionLimits struct {
	MaxCost  money.Nano
	MaxDepth int64
	MaxCalls int64
}

// Calendar is the caller's clock with the windows around it. The windows are
// those of Clock - MaxSkew: whatever the store's clock says within the
// allowed skew, its day is then Windows.Day or Windows.NextDay, and the same
// for the month.
type Calendar struct {
	Clock   time.Time
	Windows window.Calendar
}

// CalendarAt returns the calendar of clock for a tenant whose days are those
// of loc.
func CalendarAt(clock time.Time, loc *time.Location) Calendar {
	return Calendar{Clock: clock, Windows: window.CalendarAt(clock.Add(-MaxSkew), loc)}
}

// Later is CalendarAt for another clock of the same minute, in which no day begins and no zone changes; false in another.
func (c Calendar) Later(clock time.Time) (Calendar, bool) {
	now := clock.Add(-MaxSkew)
	if now.Unix()/60 != c.Windows.Now.Unix()/60 {
		return Calendar{}, false
	}
	c.Clock, c.Windows.Now = clock, now.UTC()
	return c, true
}

// Answer is what an admitted reservation is told. Every figure is as of the
// decision; a repeat gets the same.
type Answer struct {
	ReservedAt time.Time // the store's time, µs; unique per tenant
	LeaseUntil time.Time
	Day, Month int32 // labels of the windows it is charged in
	Reserved   Estimate
	// Saving: Reserved is the saving estimate, because the rung picked it.
	Saving bool
	Rung   ladder.Rung
	// RungBefore is what the tenant's last reservation was told, ladder.Normal
	// before the first.
	RungBefore ladder.Rung
	// DayUsed is own + external of the day before this call; the rung and the
	// percentage come from it.
	DayUsed, DayCeiling money.Nano
	Remaining           Remaining
	Execution           ExecutionFigures
}

// PercentUsed is the share of the day ceiling used before this call, floored.
func (a Answer) PercentUsed() int64 { return ladder.Percent(a.DayUsed, a.DayCeiling) }

// Remaining is what is left after this call, by the stated limits (not the
// caps of soft windows): negative after an overrun, Unlimited - used without
// a limit. Concurrency may count leases that ran out since the last reaping.
type Remaining struct {
	Minute, Day, Month                               money.Nano
	Requests, InputTokens, OutputTokens, Concurrency int64
}

// ExecutionFigures are a root execution's totals, this call included.
type ExecutionFigures struct {
	Spent money.Nano // settled + held + external
	// Remaining is the least that the root or a branch of the call has left; meaningful only if Limited.
	Remaining money.Nano
	Limited   bool
	Calls     int64
	Depth     int64
}

// Validate reports the first value out of range, wrapping ErrLimit.
func (l Limits) Validate() error {
	for _, v := range []struct {
		name   string
		n, min int64
	}{
		{"requests_per_minute", l.Requests, 0}, {"input_tokens_per_minute", l.InputTokens, 0},
		{"output_tokens_per_minute", l.OutputTokens, 0}, {"concurrency", l.Concurrency, 1}, {"open_executions", l.OpenExecutions, 0},
		{"minute_usd", int64(l.Minute.Limit), 0}, {"day_usd", int64(l.Day.Limit), 0}, {"month_usd", int64(l.Month.Limit), 0},
		{"minute cap", int64(l.Minute.Cap), int64(l.Minute.Limit)}, {"day cap", int64(l.Day.Cap), int64(l.Day.Limit)},
		{"month cap", int64(l.Month.Cap), int64(l.Month.Limit)},
	} {
		if v.n < v.min || v.n > Unlimited {
			return fmt.Errorf("%w: %s is %d, want %d..%d", ErrLimit, v.name, v.n, v.min, Unlimited)
		}
	}
	return nil
}

// AtLeast raises the dollars of an estimate to the minimum that every call
// holds, so that a zero estimate is no free pass.
func (e Estimate) AtLeast(minimum money.Nano) Estimate {
	e.Nanos = max(e.Nanos, minimum)
	return e
}

// Validate reports the first value out of range, wrapping ErrInvalid.
func (e Estimate) Validate() error {
	for _, n := range []int64{int64(e.Nanos), e.InputTokens, e.OutputTokens} {
		if n < 0 || n > Unlimited {
			return fmt.Errorf("%w: estimate of %d nano-dollars, %d input and %d output tokens", ErrInvalid, e.Nanos, e.InputTokens, e.OutputTokens)
		}
	}
	return nil
}

// Validate reports the first value out of range, wrapping ErrLimit: contract and token state them.
func (x Execution) Validate() error {
	for _, n := range []int64{x.Depth, int64(x.MaxCost), x.MaxDepth, x.MaxCalls} {
		if n < 0 || n > Unlimited {
			return fmt.Errorf("%w: execution of depth %d, at most %d nano-dollars, depth %d, %d calls", ErrLimit, x.Depth, x.MaxCost, x.MaxDepth, x.MaxCalls)
		}
	}
	return validateBranches(x.Branches)
}
