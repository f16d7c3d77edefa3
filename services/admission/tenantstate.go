package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/pgstore"
)

// tenantTries bounds how often a call looks again: another replica may be between any two steps of makeTenant.
const tenantTries = 4

// isLoss reports whether counters are certainly not those of the epoch.
func isLoss(err error) bool {
	return errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch)
}

// onTenant runs op, which needs the tenant's counters. Where they do not exist because nobody made them yet, it makes
// them and runs op again. Where they must exist and do not, the error stays budgetstore.ErrLost and the epoch is over: a
// lost budget is never replaced by a fresh one (I2).
func (s *Service) onTenant(ctx context.Context, t budgetstore.Tenant, op func() error) error {
	for try := 1; ; try++ {
		err := op()
		lost := isLoss(err)
		if !lost && !errors.Is(err, budgetstore.ErrNotReady) {
			return err
		}
		if try == tenantTries {
			s.lost(t)
			return err
		}
		if err := s.makeTenant(ctx, t, lost); err != nil {
			return err
		}
	}
}

// makeTenant brings a tenant's counters into being: row (making) → key (not ready) → row ready → key ready. Each step may
// be repeated and each may be the last before a crash:
//   - row making, no key or one of an earlier epoch: nothing was admitted by it; the next caller goes on.
//   - row making, key not ready: the same.
//   - row ready, key not ready: nothing was admitted by it either, or a recovery has made it; the key is marked ready.
//   - row ready, no key: lost, unless another replica has just finished; so the caller looks again, and no further.
//
// A recovery makes the counters of every tenant that had any before it lets anybody in, so who has no row then is new.
func (s *Service) makeTenant(ctx context.Context, t budgetstore.Tenant, lost bool) error {
	state, err := s.rows.TenantState(ctx, t.ID, t.Epoch)
	if err == nil && state != pgstore.StateReady {
		state, err = s.rows.BeginTenant(ctx, t.ID, t.Epoch)
	}
	if err != nil {
		return err
	}
	switch {
	case state == pgstore.StateReady && lost:
		return nil
	case state != pgstore.StateReady:
		if _, err := s.counters.CreateTenant(ctx, t); err != nil {
			return err
		}
		if err := s.rows.ReadyTenant(ctx, t.ID, t.Epoch); err != nil {
			return err
		}
	}
	return s.openTenant(ctx, t)
}

// openTenant marks the key ready, unless Redis was emptied meanwhile: then w:epoch is gone with everything else, and the
// key that was just made is a fresh budget for a tenant whose old one was lost.
func (s *Service) openTenant(ctx context.Context, t budgetstore.Tenant) error {
	epoch, err := s.counters.Epoch(ctx)
	if err != nil {
		return err
	}
	if epoch != t.Epoch {
		return fmt.Errorf("%w: %d, not %d", budgetstore.ErrEpoch, epoch, t.Epoch)
	}
	return s.counters.MarkReady(ctx, t)
}
