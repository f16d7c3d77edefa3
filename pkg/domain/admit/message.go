package admit

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// ResetsAt is when the window that refused begins anew, in the tenant's
// calendar: the end of the day or month, or when enough of the sliding minute
// has passed. Where the month is the last 30 days: when the day leaves with
// which enough is free. Zero for refusals that no window caused.
func (r Refusal) ResetsAt(loc *time.Location) time.Time {
	switch {
	case r.Code != TenantQuotaExceeded:
		return time.Time{}
	case r.Limit == LimitDay:
		return window.DayBounds(r.Window, loc).End
	case r.Limit == LimitMonth && r.Window > 999_999: // a day, which is one of the last 30 until the 31st after it begins
		return LeavesAt(r.Window, loc)
	case r.Limit == LimitMonth:
		return window.MonthBounds(r.Window, loc).End
	default:
		return r.FreesAt
	}
}

// LeavesAt is when a day, by its label, leaves the last 30.
func LeavesAt(day int32, loc *time.Location) time.Time { return window.DayBounds(day+30, loc).End }

// Title is the one-line summary of a problem with this code.
func (c Code) Title() string {
	switch c {
	case RateLimited:
		return "Too many calls at once; try again later"
	case UpstreamThrottled:
		return "The provider is throttling; try again later"
	case TenantQuotaExceeded:
		return "The budget is used up; do not retry"
	case ToolDeferred:
		return "Side effects are refused until the budget allows them"
	case ReadOnlyMode:
		return "Only reading is allowed until the budget allows more"
	case EstimateExceedsLimit:
		return "The call is larger than its limit and can never fit"
	case ExecutionBudgetExceeded:
		return "The execution has used up its budget"
	case ExecutionDepthExceeded:
		return "The execution is nested too deeply"
	case ExecutionRevoked:
		return "The execution was ended"
	case Killed:
		return "Calls are switched off by the operator"
	case ProviderAccountClosed:
		return "The provider account is closed"
	case StoreUnavailable:
		return "A store that is needed is away, or cannot be used now"
	case StoreRecovering:
		return "The budget store is being rebuilt; nothing is admitted"
	case UnknownPrice:
		return "No price is known for the model"
	case ReservationConflict:
		return "The id is another reservation's, or the reservation has ended otherwise"
	case ReservationNotFound:
		return "No such reservation"
	case ForbiddenTenant:
		return "The credential may not act for this tenant"
	case Unauthenticated:
		return "No valid credential"
	case InvalidArgument:
		return "The request is not valid"
	default:
		return "Internal error"
	}
}

// Detail says which limit refused, with its figures in its own unit.
func (r Refusal) Detail() string {
	if r.Code == EstimateExceedsLimit { // what is used plays no part
		return r.tooLarge()
	}
	switch r.Limit {
	case NoLimit:
		return r.Code.Title() + "."
	case LimitMinute, LimitDay, LimitMonth, LimitMaxCost:
		return fmt.Sprintf("%s: %s USD used and held, %s USD asked, %s USD allowed.",
			r.Limit, nanoUSD(r.Used), nanoUSD(r.Asked), nanoUSD(r.Ceiling))
	case LimitMaxDepth:
		return fmt.Sprintf("%s: depth %d, %d allowed.", r.Limit, r.Used, r.Ceiling)
	default:
		return fmt.Sprintf("%s: %d used, %d asked, %d allowed.", r.Limit, r.Used, r.Asked, r.Ceiling)
	}
}

// tooLarge is the detail of a call that no free window would admit.
func (r Refusal) tooLarge() string {
	switch r.Limit {
	case NoLimit:
		return r.Code.Title() + "."
	case LimitMinute, LimitDay, LimitMonth, LimitMaxCost:
		return fmt.Sprintf("%s: %s USD asked, %s USD allowed in all.", r.Limit, nanoUSD(r.Asked), nanoUSD(r.Ceiling))
	default:
		return fmt.Sprintf("%s: %d asked, %d allowed in all.", r.Limit, r.Asked, r.Ceiling)
	}
}

func nanoUSD(n int64) string { return money.Nano(n).USD().String() }
