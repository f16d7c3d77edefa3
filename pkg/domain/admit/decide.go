package admit

import (
	"time"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
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
}

// ExecutionUsage is what counts against one root execution.
type ExecutionUsage struct {
	Spent   money.Nano
	Calls   int64
	Revoked bool
	Open    bool // counts among the open ones already
}

// Verdict is Decide's answer. Code "" admits.
type Verdict struct {
	Code                 Code
	Limit                Limit
	Used, Asked, Ceiling int64
	// Rung is where the tenant stands before this call; ladder.Cut for a
	// quota that is used up.
	Rung ladder.Rung
}

// check is one limit: it fails when used + asked is above the ceiling.
type check struct {
	code                 Code
	limit                Limit
	used, asked, ceiling int64
}

// Decide is the rule. Its order is the precedence of design section 4.6: what
// must not be retried comes first, and of those what no waiting can cure:
// revoked, larger than a limit, the execution's limits, then month, day and
// minute; last the rates, concurrency and open executions, which may be retried.
func Decide(l Limits, e Estimate, x Execution, u Usage) Verdict {
	rung := ladder.At(u.Day, l.Day.Limit, l.Ladder)
	if x.Root != "" && u.Execution.Revoked {
		return Verdict{Code: ExecutionRevoked, Rung: rung}
	}
	nanos := int64(e.Nanos)
	checks := []check{
		{EstimateExceedsLimit, LimitMonth, 0, nanos, int64(l.Month.Cap)},
		{EstimateExceedsLimit, LimitDay, 0, nanos, int64(l.Day.Cap)},
		{EstimateExceedsLimit, LimitMinute, 0, nanos, int64(l.Minute.Cap)},
		{EstimateExceedsLimit, LimitInputTokens, 0, e.InputTokens, orUnlimited(l.InputTokens)},
		{EstimateExceedsLimit, LimitOutputTokens, 0, e.OutputTokens, orUnlimited(l.OutputTokens)},
	}
	if x.Root != "" {
		checks = append(checks,
			check{ExecutionDepthExceeded, LimitMaxDepth, x.Depth, 0, orUnlimited(x.MaxDepth)},
			check{ExecutionBudgetExceeded, LimitMaxCost, int64(u.Execution.Spent), nanos, orUnlimited(int64(x.MaxCost))},
			check{ExecutionBudgetExceeded, LimitMaxCalls, u.Execution.Calls, 1, orUnlimited(x.MaxCalls)})
	}
	checks = append(checks,
		check{TenantQuotaExceeded, LimitMonth, int64(u.Month), nanos, int64(l.Month.Cap)},
		check{TenantQuotaExceeded, LimitDay, int64(u.Day), nanos, int64(l.Day.Cap)},
		check{TenantQuotaExceeded, LimitMinute, int64(u.Minute), nanos, int64(l.Minute.Cap)},
		check{RateLimited, LimitRequests, u.Requests, 1, orUnlimited(l.Requests)},
		check{RateLimited, LimitInputTokens, u.InputTokens, e.InputTokens, orUnlimited(l.InputTokens)},
		check{RateLimited, LimitOutputTokens, u.OutputTokens, e.OutputTokens, orUnlimited(l.OutputTokens)},
		check{RateLimited, LimitConcurrency, u.Running, 1, l.Concurrency})
	if x.Root != "" && !u.Execution.Open {
		checks = append(checks, check{RateLimited, LimitOpenExecutions, u.OpenExecutions, 1, orUnlimited(l.OpenExecutions)})
	}
	for _, c := range checks {
		if c.used > c.ceiling-c.asked {
			if c.code == TenantQuotaExceeded {
				rung = ladder.Cut
			}
			return Verdict{Code: c.code, Limit: c.limit, Used: c.used, Asked: c.asked, Ceiling: c.ceiling, Rung: rung}
		}
	}
	return Verdict{Rung: rung}
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
