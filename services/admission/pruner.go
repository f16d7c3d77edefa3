package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// Old rows leave Postgres in statements of pruneRows, for up to pruneWithin of each pruneEvery: faster than ends can come.
const (
	pruneEvery  = time.Minute
	pruneWithin = 50 * time.Second
	pruneRows   = 5000
)

// prune removes what Postgres need not remember any more, until ctx ends. All replicas may do it at once.
func (s *Service) prune(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		if err := pruneAll(ctx, s.deps.Now(), s.cfg.Retention, s.rows.Prune); err != nil && ctx.Err() == nil {
			s.trouble(admit.StoreUnavailable, fmt.Errorf("prune: %w", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// pruneAll goes on for as long as there is more. An error after pruneWithin says that rows come faster than they leave.
func pruneAll(ctx context.Context, now time.Time, retention time.Duration, prune func(context.Context, time.Time, time.Time, int) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, pruneWithin)
	defer cancel()
	for {
		removed, err := prune(ctx, now.Add(-retention), now.Add(-4*maxRootAge), pruneRows)
		if err != nil || removed < pruneRows {
			return err
		}
	}
}
