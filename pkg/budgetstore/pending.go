package budgetstore

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Pending holds: while an epoch's counters are being made, a holder that shows its receipt keeps its hold of an earlier
// epoch. Key w:{t}:n has them, a hash by id, each <= 600 B + context, at most PendRequest.Most; LoadBase opens them.

// pendingTTL is how long pending holds are kept from the last one on: longer than any recovery.
const pendingTTL = 24 * time.Hour

var (
	// ErrTooLate: the counters of this epoch are made, and this hold is not among them.
	ErrTooLate = errors.New("budget store: too late for a hold of an earlier epoch")
	// ErrPending: as many holds are pending as the tenant may have.
	ErrPending = errors.New("budget store: too many pending holds")
	// ErrConflict: the id is that of another hold.
	ErrConflict = errors.New("budget store: the id is of another hold")
)

// PendRequest is a hold of an earlier epoch, as its receipt has it.
type PendRequest struct {
	Ref         // Tenant.Epoch is the one that is being made
	Day, Month  int32
	Held        admit.Estimate // the most that it was ever known to hold
	Lease       time.Duration  // from now
	Fingerprint admit.Fingerprint
	Execution   admit.Execution
	Scopes      []window.Scope // that it counts in
	Limits      admit.Limits   // for what a repeat of the reservation is told
	Context     []byte
	Most        int64 // pending holds of the tenant
}

// Pend keeps a hold of an earlier epoch, or extends one that is kept: its lease and what it holds only grow.
func (s *Store) Pend(ctx context.Context, r PendRequest) (ExtendReply, error) {
	whole := Request{Tenant: r.Tenant, ID: r.ID, Fingerprint: r.Fingerprint, Estimate: r.Held, Execution: r.Execution, Limits: r.Limits,
		Lease: r.Lease, Context: r.Context}
	for _, scope := range r.Scopes {
		none := admit.NoCeiling()
		whole.Scopes = append(whole.Scopes, ScopeLimit{Kind: scope.Kind, ID: scope.ID, Minute: none, Day: none, Month: none})
	}
	if err := whole.validate(); err != nil {
		return ExtendReply{}, err
	}
	arg := packed(nil, r.Tenant.Epoch, r.ReservedAt.UnixMicro(), int64(r.Day), int64(r.Month), int64(r.Held.Nanos), r.Held.InputTokens,
		r.Held.OutputTokens, r.Lease.Microseconds(), r.Most, millis(pendingTTL))
	code, f, err := s.run(ctx, "pend", s.scripts.pend, []string{key(r.Tenant, "n"), key(r.Tenant, "s")}, arg, r.ID, whole.kept(), s.at())
	switch {
	case errors.Is(err, ErrFull):
		return ExtendReply{}, ErrPending
	case err != nil:
		return ExtendReply{}, err
	case code == replyElse:
		return ExtendReply{}, ErrTooLate
	case code == replyConflict:
		return ExtendReply{}, ErrConflict
	}
	out := ExtendReply{Found: true, LeaseUntil: f.time(), Held: f.estimate()}
	return out, f.err("pend")
}

// Unpend forgets a pending hold whose call was not made, and gives it back where it is open already. r names the epoch that
// is being made.
func (s *Store) Unpend(ctx context.Context, r Ref) error {
	_, _, err := s.run(ctx, "unpend", s.scripts.unpend, []string{key(r.Tenant, "n")}, packed(nil, r.Tenant.Epoch, r.ReservedAt.UnixMicro()), r.ID)
	if err != nil {
		return err
	}
	if _, err = s.Release(ctx, r); errors.Is(err, ErrLost) || errors.Is(err, ErrEpoch) {
		return nil
	}
	return err
}

// ForgetPending forgets what was pending of a tenant whose counters of an epoch are ready; not what a later epoch keeps.
func (s *Store) ForgetPending(ctx context.Context, t Tenant) error {
	_, _, err := s.run(ctx, "forget pending", s.scripts.forget, []string{key(t, "n")}, packed(nil, t.Epoch))
	return err
}
