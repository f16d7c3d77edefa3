package epoch

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
)

// unfit says why no reservation of this replica is taken by a Redis, the right one or not, that was asked between two instants
// of this replica's clock.
func unfit(redis budgetstore.Standing, asked, answered time.Time) error {
	if redis.Refuses != nil {
		return redis.Refuses
	}
	for _, clock := range redis.Clocks {
		apart, way := admit.Apart(clock, asked, answered), "ahead of"
		if apart < 0 {
			apart, way = -apart, "behind"
		}
		if apart > admit.MaxSkew {
			return fmt.Errorf("%w by more than %s: Redis' is %s %s this replica's; set the one right that is wrong",
				budgetstore.ErrClockSkew, admit.MaxSkew, apart.Round(time.Millisecond), way)
		}
	}
	return nil
}

// fit takes over what unfit says.
func (w *Watcher) fit(why error) {
	w.state.fit(why)
	if why != nil {
		w.warn("unfit", "this replica can admit nothing", why)
	}
}
