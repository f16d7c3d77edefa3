package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
)

// recoveringError says that the counters of the epoch are being made anew.
type recoveringError struct {
	epoch int64
	// retry is how long a caller should wait.
	retry time.Duration
	// left is how long leases of the lost epoch may still run; 0: the rest is quick, as a rule.
	left time.Duration
}

func (e recoveringError) Error() string {
	if e.left <= 0 {
		return fmt.Sprintf("the budget store was lost; the counters of epoch %d are being made anew from the journal", e.epoch)
	}
	return fmt.Sprintf("the budget store was lost; the counters of epoch %d are being made anew from the journal, in %s, when no lease of the lost ones runs any more",
		e.epoch, e.left.Round(time.Second))
}

// ReadyCode is what /readyz says of it to programs: the code of the calls that are refused meanwhile.
func (e recoveringError) ReadyCode() string { return string(admit.StoreRecovering) }

// of names a tenant in the epoch of now.
func (s *Service) of(tenant string) (budgetstore.Tenant, error) {
	epoch, err := s.epoch()
	if err != nil {
		return budgetstore.Tenant{}, err
	}
	return budgetstore.Tenant{ID: tenant, Epoch: epoch}, nil
}

// epoch is the one to serve in now; the error says why nobody is served.
func (s *Service) epoch() (int64, error) {
	now, err := s.epochs.Current()
	if err == nil && now.Recovering {
		err = recoveringError{epoch: now.Epoch, retry: now.Retry, left: now.Left}
	}
	return now.Epoch, err
}

// sameEpoch is the readiness check: a replica that refuses every reservation must not look ready.
func (s *Service) sameEpoch(context.Context) error {
	if _, err := s.epoch(); err != nil {
		return err
	}
	return s.epochs.Unfit()
}

// lost tells the watcher that a tenant's counters are gone, or of an earlier epoch.
func (s *Service) lost(t budgetstore.Tenant) { s.epochs.Lost(t) }

// logQuietly warns once per ten seconds and kind.
func (s *Service) logQuietly(kind, text string, err error) {
	if s.quiet.Pass(kind, s.deps.Now()) {
		s.deps.Log.Warn(text, "error", err)
	}
}
