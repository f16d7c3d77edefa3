package admit

// Code is the stable problem code of an answer (docs/reference/codes.md).
type Code string

// Codes that admission answers with.
const (
	RateLimited             Code = "rate_limited"
	UpstreamThrottled       Code = "upstream_throttled"
	TenantQuotaExceeded     Code = "tenant_quota_exceeded"
	ToolDeferred            Code = "tool_deferred"
	ReadOnlyMode            Code = "read_only_mode"
	EstimateExceedsLimit    Code = "estimate_exceeds_limit"
	ExecutionBudgetExceeded Code = "execution_budget_exceeded"
	ExecutionDepthExceeded  Code = "execution_depth_exceeded"
	ExecutionRevoked        Code = "execution_revoked"
	Killed                  Code = "killed"
	ProviderAccountClosed   Code = "provider_account_closed"
	StoreUnavailable        Code = "budget_store_unavailable"
	StoreRecovering         Code = "budget_store_recovering"
	UnknownPrice            Code = "unknown_price"
	ReservationConflict     Code = "reservation_conflict"
	ReservationNotFound     Code = "reservation_not_found"
	ForbiddenTenant         Code = "forbidden_tenant"
	Unauthenticated         Code = "unauthenticated"
	InvalidArgument         Code = "invalid_argument"
)

// Status is the HTTP status of a code; 500 for one that is not in the list.
func (c Code) Status() int {
	switch c {
	case RateLimited, UpstreamThrottled, TenantQuotaExceeded:
		return 429
	case ToolDeferred, ReadOnlyMode, ExecutionBudgetExceeded, ExecutionDepthExceeded, ExecutionRevoked, ForbiddenTenant:
		return 403
	case EstimateExceedsLimit, UnknownPrice:
		return 422
	case Killed, ProviderAccountClosed, StoreUnavailable, StoreRecovering:
		return 503
	case ReservationConflict:
		return 409
	case ReservationNotFound:
		return 404
	case Unauthenticated:
		return 401
	case InvalidArgument:
		return 400
	default:
		return 500
	}
}

// Retryable reports whether the same request may succeed later by itself.
// Only these codes carry Retry-After.
func (c Code) Retryable() bool {
	switch c {
	case RateLimited, UpstreamThrottled, StoreUnavailable, StoreRecovering:
		return true
	default:
		return false
	}
}

// Trips reports whether a refusal with this code trips the breaker of the
// execution, if the limit is the root's own: Refusal.Trips.
func (c Code) Trips() bool {
	return c == ExecutionBudgetExceeded || c == ExecutionDepthExceeded
}

// Limit names the limit that refused, as answers and decisions show it.
type Limit string

// The limits of one reservation.
const (
	NoLimit           Limit = ""
	LimitRequests     Limit = "requests_per_minute"
	LimitInputTokens  Limit = "input_tokens_per_minute"
	LimitOutputTokens Limit = "output_tokens_per_minute"
	LimitConcurrency  Limit = "concurrency"
	LimitMinute       Limit = "minute"
	LimitDay          Limit = "day"
	LimitMonth        Limit = "month"
	LimitMaxCost      Limit = "max_cost_usd"
	LimitMaxDepth     Limit = "max_depth"
	LimitMaxCalls     Limit = "max_calls"
	// LimitOpenExecutions bounds a tenant's open root executions. One opens with
	// its first reservation and closes when it is closed or revoked, or when it
	// holds nothing and was not used for 15 minutes.
	LimitOpenExecutions Limit = "open_executions"
)
