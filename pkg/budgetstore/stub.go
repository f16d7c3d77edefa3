package budgetstore

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
)

type Options struct {
	MaxLease     time.Duration
	ExecutionTTL time.Duration
	HoldTTL      time.Duration
	ScriptClock  func() time.Time
}

type Store struct{}

var (
	ErrUnavailable = errors.New("budget store unavailable")
	ErrLost        = errors.New("budget store has lost the tenant's counters")
	ErrNotReady    = errors.New("budget store: tenant is not ready")
	ErrEpoch       = errors.New("budget store is of another epoch")
	ErrClockSkew   = errors.New("budget store's clock and the caller's differ")
	ErrNoEpoch     = errors.New("budget store has no epoch")
	ErrNoHold      = errors.New("no such hold")
)

var errStub = errors.New("stub")

// MaxContext bounds Request.Context, in bytes.
const MaxContext = 2048

func Open(ctx context.Context, url string, opts Options) (*Store, error) { return nil, errStub }
func (s *Store) Close() error                                            { return nil }
func (s *Store) Ping(ctx context.Context) error                          { return errStub }
func (s *Store) Epoch(ctx context.Context) (int64, error)                { return 0, errStub }

// InitEpoch sets the epoch where there is none and returns the one in force.
func (s *Store) InitEpoch(ctx context.Context, epoch int64) (int64, error) { return 0, errStub }

// CreateTenant makes the counters, all zero and not ready; false if they are there.
func (s *Store) CreateTenant(ctx context.Context, t Tenant) (bool, error) { return false, errStub }
func (s *Store) MarkReady(ctx context.Context, t Tenant) error            { return errStub }
func (s *Store) Reserve(ctx context.Context, r Request) (Reply, error)    { return Reply{}, errStub }
func (s *Store) Extend(ctx context.Context, r ExtendRequest) (ExtendReply, error) {
	return ExtendReply{}, errStub
}

// Settle replaces the hold by the actual.
func (s *Store) Settle(ctx context.Context, r Ref, actual admit.Estimate) (Ending, error) {
	return Ending{}, errStub
}

// Release gives dollars, tokens and concurrency back; the request stays counted.
func (s *Store) Release(ctx context.Context, r Ref) (Ending, error) { return Ending{}, errStub }

// Expire clears a hold; its estimate stays counted.
func (s *Store) Expire(ctx context.Context, r Ref) (Ending, error)           { return Ending{}, errStub }
func (s *Store) Due(ctx context.Context, t Tenant, max int) ([]Hold, error)  { return nil, errStub }
func (s *Store) Hold(ctx context.Context, t Tenant, id string) (Hold, error) { return Hold{}, errStub }
func (s *Store) Budget(ctx context.Context, t Tenant, c admit.Calendar) (Budget, error) {
	return Budget{}, errStub
}
func (s *Store) ApplyJournal(ctx context.Context, t Tenant, entries []JournalEntry) error {
	return errStub
}
func (s *Store) ApplyExternal(ctx context.Context, t Tenant, totals []ExternalTotal) error {
	return errStub
}
func (s *Store) StartExecution(ctx context.Context, t Tenant, root string, l admit.ExecutionLimits) (ExecutionState, error) {
	return ExecutionState{}, errStub
}
func (s *Store) Execution(ctx context.Context, t Tenant, root string) (ExecutionState, error) {
	return ExecutionState{}, errStub
}
func (s *Store) Revoke(ctx context.Context, t Tenant, root string) error         { return errStub }
func (s *Store) CloseExecution(ctx context.Context, t Tenant, root string) error { return errStub }
