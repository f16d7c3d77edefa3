package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/pgstore"
)

// tenantTries bounds how often a call looks again: another replica may be between any two steps of makeTenant.
const tenantTries = 4

// onTenant runs op, which needs the tenant's counters. Where they do not exist because nobody made them yet, it makes
// them and runs op again. Where they must exist and do not, the error stays budgetstore.ErrLost: a lost budget is never
// replaced by a fresh one (I2).
func (s *Service) onTenant(ctx context.Context, t budgetstore.Tenant, op func() error) error {
	for try := 1; ; try++ {
		err := op()
		lost := errors.Is(err, budgetstore.ErrLost)
		if !lost && !errors.Is(err, budgetstore.ErrNotReady) || try == tenantTries {
			return err
		}
		if err := s.makeTenant(ctx, t, lost); err != nil {
			return err
		}
	}
}

// makeTenant brings a tenant's counters into being: row (making) → key (not ready) → row ready → key ready. Each step may
// be repeated and each may be the last before a crash:
//   - row making, no key: nothing was admitted by it; the next caller goes on.
//   - row making, key not ready: the same.
//   - row ready, key not ready: nothing was admitted by it either; the key is marked ready.
//   - row ready, no key: lost, unless another replica has just finished; so the caller looks again, and no further.
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

// passLost lets a reader go on past a tenant whose counters alone are gone: waiting for them would stop every tenant of
// the partition (I7), and the tenant itself is refused until it is recovered from the totals. Where all of Redis is
// gone, the epoch is too: then the reader waits, because Redis may come back with its data and nothing may be missing.
func (s *Service) passLost(ctx context.Context, t budgetstore.Tenant, err error) error {
	if !errors.Is(err, budgetstore.ErrLost) {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if epoch, epochErr := s.counters.Epoch(ctx); epochErr != nil || epoch != t.Epoch {
		return errors.Join(err, epochErr)
	}
	s.metrics.lostTenants.Inc()
	s.trouble(problem(admit.StoreRecovering, ""), fmt.Errorf("tenant %s is passed over: %w", t.ID, err))
	return nil
}

// epochs is which life of Redis this replica works with. Zero: not known, or Redis and Postgres disagree; nothing is
// admitted then.
type epochs struct {
	mu    sync.RWMutex
	epoch int64
	err   error
	at    time.Time // of the last comparison
}

var errEpochUnknown = errors.New("the epoch of the budget store was not read yet")

// epochInterval is how often Postgres and Redis are compared.
const epochInterval = time.Second

func (e *epochs) get() (int64, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.epoch == 0 && e.err == nil {
		return 0, errEpochUnknown
	}
	return e.epoch, e.err
}

func (e *epochs) set(epoch int64, err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch, e.err, e.at = epoch, err, now
}

func (e *epochs) comparedAt() time.Time {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.at
}

// of names a tenant in the epoch of now.
func (s *Service) of(tenant string) (budgetstore.Tenant, error) {
	epoch, err := s.epochs.get()
	if err != nil {
		return budgetstore.Tenant{}, err
	}
	return budgetstore.Tenant{ID: tenant, Epoch: epoch}, nil
}

// watchEpoch compares Postgres' and Redis' epoch until ctx ends. While one of them is away the last agreement stands:
// each script compares the epoch again, so a Redis that came back empty is refused all the same.
func (s *Service) watchEpoch(ctx context.Context) error {
	for {
		s.readEpoch(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(epochInterval):
		}
	}
}

// sameEpoch is the readiness check: a replica whose Redis was emptied, or is of another life, refuses everybody, and must
// not look ready. It does not lean on the loop above: a comparison older than its interval is made anew.
func (s *Service) sameEpoch(ctx context.Context) error {
	if s.deps.Now().Sub(s.epochs.comparedAt()) > epochInterval {
		s.readEpoch(ctx)
	}
	_, err := s.epochs.get()
	return err
}

func (s *Service) readEpoch(ctx context.Context) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	want, ok, err := s.rows.Epoch(ctx)
	if err != nil {
		return
	}
	if !ok {
		s.epochs.set(0, fmt.Errorf("%w in Postgres; run `weir init`", budgetstore.ErrNoEpoch), s.deps.Now())
		return
	}
	have, err := s.counters.Epoch(ctx)
	switch {
	case errors.Is(err, budgetstore.ErrNoEpoch):
		s.epochs.set(0, fmt.Errorf("%w: Redis has none, Postgres has one", budgetstore.ErrEpoch), s.deps.Now())
	case err != nil:
		return
	case have != want:
		s.epochs.set(0, fmt.Errorf("%w: Redis and Postgres disagree", budgetstore.ErrEpoch), s.deps.Now())
	default:
		s.epochs.set(want, nil, s.deps.Now())
	}
}
