package admit

import (
	"fmt"

	"github.com/weir-project/weir/pkg/domain/money"
)

// MaxBranches bounds the branches that one call counts in: how often a limit may be lowered on the way down from a root.
const MaxBranches = 8

// Branch is a child agent that was started with a lower max_cost_usd than its parent has, and all its descendants: together
// they never settle and hold more than MaxCost nano-dollars. ID is unique in the tenant.
type Branch struct {
	ID      string
	MaxCost money.Nano
}

// validateBranches reports the first value out of range, wrapping ErrInvalid.
func validateBranches(list []Branch) error {
	if len(list) > MaxBranches {
		return fmt.Errorf("%w: %d branches, at most %d", ErrInvalid, len(list), MaxBranches)
	}
	for _, b := range list {
		if b.MaxCost < 1 || int64(b.MaxCost) > Unlimited {
			return fmt.Errorf("%w: branch %q of %d nano-dollars", ErrInvalid, b.ID, b.MaxCost)
		}
	}
	return nil
}
