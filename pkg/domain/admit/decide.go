package admit

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Usage is what counts against a tenant's limits at one instant: settled,
// held and external together.
type Usage struct {
	// The sliding minute.
	Requests, InputTokens, OutputTokens int64
	Running                             int64 // open holds whose lease runs
	OpenExecutions                      int64
	Minute, Day, Month                  money.Nano
	Execution                           ExecutionUsage
	Scopes                              []ScopeUsage // in the order of Ask.Scopes
}

// ScopeUsage is what counts against one sub-scope.
type ScopeUsage struct{ Minute, Day, Month money.Nano }

// ExecutionUsage is what counts against one root execution.
type ExecutionUsage struct {
	Spent money.Nano
	// Branches is what was spent in each of Execution.Branches, in their order.
	Branches []money.Nano
	Calls    int64
	Revoked  bool
	Open     bool // counts among the open ones already
}

// Verdict is Decide's answer. Code "" admits.
type Verdict struct {
	Code                 Code
	Limit                Limit
	Used, Asked, Ceiling int64
	// ScopeKind and ScopeID name the sub-scope whose limit refused.
	ScopeKind window.ScopeKind
	ScopeID   string
	// Rung is where the tenant's day stands before this call, see
	// Limits.DayRung; ladder.Cut for any quota of its own that refused.
	Rung ladder.Rung
	// Estimate is what the rung picked, Saving whether it is the cheaper one.
	Estimate Estimate
	Saving   bool
}

// check is one limit: it fails when used + asked is above the ceiling.
type check struct {
	code                 Code
	limit                Limit
	used, asked, ceiling int64
	scope                *ScopeLimit
}

// Decide is the rule. Its order is a precedence (docs/reference/codes.md): what
// must not be retried comes first, and of those what no waiting can cure:
// revoked, larger than a limit, the limits of the execution and its branches,
// then month, day and minute, of the tenant before its sub-scopes; what the
// rung bars; last the rates, concurrency and open executions, which may be
// retried.
func Decide(l Limits, a Ask, x Execution, u Usage) Verdict {
	v, degraded := Verdict{Rung: l.DayRung(u.Day)}, ladder.At(u.Day, l.Day.Limit, l.Ladder)
	v.Estimate, v.Saving = a.at(degraded)
	if x.Root != "" && u.Execution.Revoked {
		v.Code = ExecutionRevoked
		return v
	}
	for _, c := range lasting(l, a, v.Estimate, x, u) {
		if c.fails() {
			return v.refused(c)
		}
	}
	if v.Code = a.barred(degraded); v.Code != "" {
		return v
	}
	for _, c := range passing(l, v.Estimate, x, u) {
		if c.fails() {
			return v.refused(c)
		}
	}
	return v
}

func (c check) fails() bool { return c.used > c.ceiling-c.asked }

func (v Verdict) refused(c check) Verdict {
	v.Code, v.Limit, v.Used, v.Asked, v.Ceiling = c.code, c.limit, c.used, c.asked, c.ceiling
	if c.scope != nil {
		v.ScopeKind, v.ScopeID = c.scope.Kind, c.scope.ID
	} else if c.code == TenantQuotaExceeded {
		v.Rung = ladder.Cut
	}
	return v
}

// lasting are the checks that must not be retried, in order.
func lasting(l Limits, a Ask, e Estimate, x Execution, u Usage) []check {
	nanos := int64(e.Nanos)
	checks := quota(EstimateExceedsLimit, nanos, l.Month, l.Day, l.Minute, ScopeUsage{}, nil)
	checks = append(checks,
		check{EstimateExceedsLimit, LimitInputTokens, 0, e.InputTokens, orUnlimited(l.InputTokens), nil},
		check{EstimateExceedsLimit, LimitOutputTokens, 0, e.OutputTokens, orUnlimited(l.OutputTokens), nil})
	for i, s := range a.Scopes {
		checks = append(checks, quota(EstimateExceedsLimit, nanos, s.Month, s.Day, s.Minute, ScopeUsage{}, &a.Scopes[i])...)
	}
	if x.Root != "" {
		checks = append(checks,
			check{ExecutionDepthExceeded, LimitMaxDepth, x.Depth, 0, orUnlimited(x.MaxDepth), nil},
			check{ExecutionBudgetExceeded, LimitMaxCost, int64(u.Execution.Spent), nanos, orUnlimited(int64(x.MaxCost)), nil})
		for i, b := range x.Branches {
			checks = append(checks, check{ExecutionBudgetExceeded, LimitMaxCost, int64(u.Execution.Branches[i]), nanos, int64(b.MaxCost),
				&ScopeLimit{Kind: window.Branch, ID: b.ID}})
		}
		checks = append(checks, check{ExecutionBudgetExceeded, LimitMaxCalls, u.Execution.Calls, 1, orUnlimited(x.MaxCalls), nil})
	}
	checks = append(checks, quota(TenantQuotaExceeded, nanos, l.Month, l.Day, l.Minute, ScopeUsage{u.Minute, u.Day, u.Month}, nil)...)
	for i, s := range a.Scopes {
		checks = append(checks, quota(TenantQuotaExceeded, nanos, s.Month, s.Day, s.Minute, u.Scopes[i], &a.Scopes[i])...)
	}
	return checks
}

// quota are the windows of dollars, the longest first.
func quota(code Code, nanos int64, month, day, minute Ceiling, u ScopeUsage, scope *ScopeLimit) []check {
	return []check{
		{code, LimitMonth, int64(u.Month), nanos, int64(month.Cap), scope},
		{code, LimitDay, int64(u.Day), nanos, int64(day.Cap), scope},
		{code, LimitMinute, int64(u.Minute), nanos, int64(minute.Cap), scope},
	}
}

// passing are the checks that may be retried, in order.
func passing(l Limits, e Estimate, x Execution, u Usage) []check {
	checks := []check{
		{RateLimited, LimitRequests, u.Requests, 1, orUnlimited(l.Requests), nil},
		{RateLimited, LimitInputTokens, u.InputTokens, e.InputTokens, orUnlimited(l.InputTokens), nil},
		{RateLimited, LimitOutputTokens, u.OutputTokens, e.OutputTokens, orUnlimited(l.OutputTokens), nil},
		{RateLimited, LimitConcurrency, u.Running, 1, l.Concurrency, nil},
	}
	if x.Root != "" && !u.Execution.Open {
		checks = append(checks, check{RateLimited, LimitOpenExecutions, u.OpenExecutions, 1, orUnlimited(l.OpenExecutions), nil})
	}
	return checks
}

func orUnlimited(n int64) int64 {
	if n == 0 {
		return Unlimited
	}
	return n
}

// Bounds of Retry-After for rate limits: at least a second, and never more
// than a whole window, after which every bucket has left.
const (
	minRetry = time.Second
	maxRetry = 61 * time.Second
)

// RetryAfter is how long a caller that was refused with a retryable code
// should wait, in whole seconds, rounded up; ok is false for codes that must
// not be retried. Stores in trouble get a second, to which the caller adds
// its jitter.
func (r Refusal) RetryAfter() (wait time.Duration, ok bool) {
	if !r.Code.Retryable() {
		return 0, false
	}
	if r.FreesAt.IsZero() || r.Limit == LimitConcurrency {
		return minRetry, true // a call in flight ends when it ends; the lease is only its latest end
	}
	wait = r.FreesAt.Sub(r.At)
	wait = (wait + time.Second - 1).Truncate(time.Second)
	return min(max(wait, minRetry), maxRetry), true
}
