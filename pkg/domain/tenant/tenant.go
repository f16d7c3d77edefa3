// Package tenant holds a tenant's contract: limits, ceilings, markup, calendar and plan data, with their history.
//
// It owns what a contract may say and which version is in force at a time. It does not own how a contract is
// written down (pkg/tenantsfile) or carried (pkg/catalog).
//
// Invariants: a Contract that Validate accepts needs no further check by its readers; a History is sorted by
// EffectiveFrom and never empty.
package tenant

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// MaxLimit bounds every limit that is a number of something: no counter goes beyond it.
const MaxLimit = int64(money.MaxNano)

// Limits are rates and concurrency, each at most MaxLimit. 0 means no limit, except Concurrency, which is mandatory.
type Limits struct {
	RequestsPerMinute     int64
	InputTokensPerMinute  int64
	OutputTokensPerMinute int64
	Concurrency           int64 // calls in flight, all admission replicas together
	OpenExecutions        int64
}

// Ceilings are the dollars that may be spent per window; all three are mandatory and above zero.
type Ceilings struct {
	Minute money.Nano // any 60 seconds
	Day    money.Nano // the tenant's calendar day
	Month  money.Nano // the tenant's calendar month
}

// Execution bounds one root execution with all its descendants. 0 means no limit.
type Execution struct {
	MaxCost  money.Nano
	MaxDepth int32
	MaxCalls int64
}

// Count says which cost the ceilings, the ladder and the breaker count.
type Count string

// The two ways to count: the provider's list price (default), or what the tenant is billed.
const (
	CountRaw    Count = "raw"
	CountBilled Count = "billed"
)

// MonthKind is the month that the month ceiling is about.
type MonthKind string

// The calendar month in the tenant's time zone (default), or the last 30 days.
const (
	MonthCalendar  MonthKind = "calendar"
	MonthRolling30 MonthKind = "rolling30"
)

// UnknownPrice is what becomes of a reservation that has no price.
type UnknownPrice string

// A reservation without a price is refused (default), or held at the dearest rates that its provider has for it.
const (
	UnknownPriceRefuse  UnknownPrice = "refuse"
	UnknownPriceDearest UnknownPrice = "dearest"
)

// DefaultOverrunPercent is how far a soft ceiling may be passed before it refuses after all.
const DefaultOverrunPercent = "10"

// Contract is one version of what a tenant may do and pays, with its plan already applied.
type Contract struct {
	EffectiveFrom time.Time
	PublishedAt   time.Time
	Removed       bool // taken out by `weir tenants apply --prune`: refused from then on
	Plan          string
	Limits        Limits
	Ceilings      Ceilings
	Count         Count
	SoftDay       bool // the day degrades instead of refusing, up to Overrun
	Overrun       money.Percent
	Markup        money.Percent
	Timezone      string // IANA name; "" is UTC
	Month         MonthKind
	Ladder        [3]int32 // percent of the day ceiling at which rungs 1, 2 and 3 begin
	Actions       Actions  // what the rungs do
	Execution     Execution
	UnknownPrice  UnknownPrice // "" is refuse: contracts from before there was a choice
	Identities    []string     // "slack:T0123", "telegram:…", "jwt:…"
	Scopes        []Scope      // sub-scopes with ceilings of their own, sorted
}

// DefaultLadder is where rungs 1, 2 and 3 begin, in percent of the day ceiling.
func DefaultLadder() [3]int32 { return ladder.Default() }

// HoldsUnpriced reports whether a reservation without a price is held at its provider's dearest rates, not refused.
func (c Contract) HoldsUnpriced() bool { return c.UnknownPrice == UnknownPriceDearest }

// Location is the tenant's budget calendar. Validate has loaded it once, so an error here means the machine lacks
// the time zone database.
func (c Contract) Location() (*time.Location, error) {
	if c.Timezone == "" {
		return time.UTC, nil
	}
	if c.Timezone == "Local" { // the machine's own zone: two replicas could disagree about the day
		return nil, errors.New(`time zone "Local": give an IANA name`)
	}
	loc, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", c.Timezone, err)
	}
	return loc, nil
}

// Validate joins everything that is wrong with c, each in words that name the field of the tenants file.
func (c Contract) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Limits.Concurrency <= 0 || c.Limits.Concurrency > MaxLimit {
		bad("limits.concurrency is mandatory and must be above 0, at most %d", MaxLimit)
	}
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"limits.requests_per_minute", c.Limits.RequestsPerMinute},
		{"limits.input_tokens_per_minute", c.Limits.InputTokensPerMinute},
		{"limits.output_tokens_per_minute", c.Limits.OutputTokensPerMinute},
		{"limits.open_executions", c.Limits.OpenExecutions},
		{"execution.max_depth", int64(c.Execution.MaxDepth)},
		{"execution.max_calls", c.Execution.MaxCalls},
		{"execution.max_cost_usd", int64(c.Execution.MaxCost)},
	} {
		if l.value < 0 || l.value > MaxLimit {
			bad("%s must not be negative, nor above %d", l.name, MaxLimit)
		}
	}
	for _, l := range []struct {
		name  string
		value money.Nano
	}{
		{"ceilings.minute_usd", c.Ceilings.Minute},
		{"ceilings.day_usd", c.Ceilings.Day},
		{"ceilings.month_usd", c.Ceilings.Month},
	} {
		if l.value <= 0 || l.value > money.MaxNano {
			bad("%s is mandatory and must be above 0, at most %s", l.name, money.MaxNano.USD())
		}
	}
	if c.Count != CountRaw && c.Count != CountBilled {
		bad("count must be raw or billed, not %q", c.Count)
	}
	if c.Month != MonthCalendar && c.Month != MonthRolling30 {
		bad("month must be calendar or rolling30, not %q", c.Month)
	}
	if c.UnknownPrice != "" && c.UnknownPrice != UnknownPriceRefuse && c.UnknownPrice != UnknownPriceDearest {
		bad("unknown_price must be refuse or dearest, not %q", c.UnknownPrice)
	}
	if !(0 < c.Ladder[0] && c.Ladder[0] <= c.Ladder[1] && c.Ladder[1] <= c.Ladder[2]) {
		bad("ladder must be three rising percentages above 0, not %v", c.Ladder)
	}
	if _, err := c.Location(); err != nil {
		bad("timezone: %w", err)
	}
	return errors.Join(slices.Concat(errs, c.Actions.validate(), c.validateScopes())...)
}

// Equal reports whether two versions say the same, their dates aside.
func (c Contract) Equal(o Contract) bool {
	return c.Removed == o.Removed && c.Plan == o.Plan && c.Limits == o.Limits && c.Ceilings == o.Ceilings &&
		c.Count == o.Count && c.SoftDay == o.SoftDay && c.Overrun.Cmp(o.Overrun) == 0 && c.Markup.Cmp(o.Markup) == 0 &&
		c.Timezone == o.Timezone && c.Month == o.Month && c.Ladder == o.Ladder && c.Execution == o.Execution &&
		c.HoldsUnpriced() == o.HoldsUnpriced() && c.Actions.Equal(o.Actions) &&
		slices.Equal(c.Identities, o.Identities) && slices.Equal(c.Scopes, o.Scopes)
}

// History is every version of one tenant's contract, the oldest first.
type History struct {
	ID       string
	Versions []Contract
}

// At is the version in force at t: the last one that began at or before t. Usage older than the first version takes
// the first version, since a tenant that exists must be billable.
func (h History) At(t time.Time) (Contract, bool) {
	if in := h.InForce(t); in != nil {
		return *in, true
	}
	return Contract{}, false
}

// InForce is At without a copy, nil for none: the history's own, which nobody may change.
func (h History) InForce(t time.Time) *Contract {
	if len(h.Versions) == 0 {
		return nil
	}
	in := 0
	for in+1 < len(h.Versions) && !h.Versions[in+1].EffectiveFrom.After(t) {
		in++
	}
	return &h.Versions[in]
}

// With returns the history after c took effect. It fails when c would begin before the newest version, because what
// was billed by that version would no longer be what the history says.
func (h History) With(c Contract) (History, error) {
	if n := len(h.Versions); n > 0 && c.EffectiveFrom.Before(h.Versions[n-1].EffectiveFrom) {
		return h, fmt.Errorf("tenant %s: a version effective from %s would precede the newest one (%s)",
			h.ID, c.EffectiveFrom.Format(time.RFC3339), h.Versions[n-1].EffectiveFrom.Format(time.RFC3339))
	}
	return History{ID: h.ID, Versions: append(slices.Clone(h.Versions), c)}, nil
}
