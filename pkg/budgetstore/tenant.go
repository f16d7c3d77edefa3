package budgetstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
)

const epochKey = "w:epoch"

// ErrNoEpoch: Redis has never been initialised, or was emptied.
var ErrNoEpoch = errors.New("budget store has no epoch: never initialised, or emptied")

// Epoch returns the epoch of this Redis; ErrNoEpoch if it has none.
func (s *Store) Epoch(ctx context.Context) (int64, error) {
	n, err := s.client.Get(ctx, epochKey).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, ErrNoEpoch
	}
	if err != nil {
		return 0, fmt.Errorf("%w: epoch: %w", ErrUnavailable, err)
	}
	return n, nil
}

// InitEpoch sets the epoch where there is none, and returns the one in force.
// epoch is random, 1 to 2^52.
func (s *Store) InitEpoch(ctx context.Context, epoch int64) (int64, error) {
	if epoch < 1 || epoch > 1<<52 {
		return 0, fmt.Errorf("%w: epoch %d", admit.ErrInvalid, epoch)
	}
	if err := s.client.SetNX(ctx, epochKey, epoch, 0).Err(); err != nil {
		return 0, fmt.Errorf("%w: epoch: %w", ErrUnavailable, err)
	}
	return s.Epoch(ctx)
}

// CreateTenant makes a tenant's counters, all zero and not ready. It reports
// false if they were there already. Only for a tenant that Postgres does not
// know as ready: for one it does, a missing key means lost.
func (s *Store) CreateTenant(ctx context.Context, t Tenant) (bool, error) {
	if err := checkID("tenant", t.ID); err != nil {
		return false, err
	}
	code, _, err := s.tenant(ctx, t, "create")
	return code == replyDone && err == nil, err
}

// MarkReady lets a tenant's reservations in.
func (s *Store) MarkReady(ctx context.Context, t Tenant) error {
	_, _, err := s.tenant(ctx, t, "ready")
	return err
}

func (s *Store) tenant(ctx context.Context, t Tenant, verb string) (byte, *figures, error) {
	return s.run(ctx, "tenant "+verb, s.scripts.tenant, []string{key(t, "s")}, packed(nil, t.Epoch), verb)
}

// Budget reads a tenant's counters now; the calendar says which day and month,
// the limits whether the month is the last 30 days, whose label is the
// calendar's, and what its ceiling is: see Budget.Leaves.
func (s *Store) Budget(ctx context.Context, t Tenant, c admit.Calendar, l admit.Limits) (Budget, error) {
	return s.budget(ctx, t.Epoch, key(t, "s"), c, l)
}

func (s *Store) budget(ctx context.Context, epoch int64, state string, c admit.Calendar, l admit.Limits) (Budget, error) {
	w := scriptWindows(c, l.Rolling30)
	arg := packed(nil, epoch, int64(w.Day), w.DayEnds.UnixMicro(), int64(w.NextDay), int64(w.Month), w.MonthEnds.UnixMicro(), int64(w.NextMonth), int64(l.Month.Cap))
	_, f, err := s.run(ctx, "budget", s.scripts.budget, []string{state}, arg, s.at())
	if err != nil {
		return Budget{}, err
	}
	b := Budget{At: f.time(), Ready: f.int() == 1, JournalOffset: f.int(), Requests: f.int(), InputTokens: f.int(), OutputTokens: f.int()}
	b.Minute = WindowUse{Own: f.nano(), External: f.nano()}
	b.Day, b.Month = f.use(), f.use()
	b.Month.Label = b.Day.Label / 100
	b.Concurrency, b.Expiring, b.Leaves = f.int(), f.int(), dayLabel(f.int())
	return b, f.err("budget")
}

func (f *figures) use() WindowUse {
	return WindowUse{Label: int32(f.int()), Own: f.nano(), Held: f.nano(), External: f.nano()}
}

// StartExecution makes a root execution, or resumes it: totals stay, and each
// limit becomes the lower of the stored and the given one. ErrExecutions where it was not started yet, and MaxExecutions were.
func (s *Store) StartExecution(ctx context.Context, t Tenant, root string, l admit.ExecutionLimits) (ExecutionState, error) {
	if err := (admit.Execution{ExecutionLimits: l}).Validate(); err != nil {
		return ExecutionState{}, err
	}
	return s.execution(ctx, t, root, "start", l)
}

// RoomFor is ErrExecutions where StartExecution would be, whatever the limits. It changes nothing.
func (s *Store) RoomFor(ctx context.Context, t Tenant, root string) error {
	if err := checkID("root execution", root); err != nil {
		return err
	}
	code, _, err := s.runExecution(ctx, t, root, "room", admit.ExecutionLimits{})
	if err == nil && code == replyRefused {
		err = ErrExecutions
	}
	return err
}

// Execution reads a root execution; ErrNoExecution if it is not known.
func (s *Store) Execution(ctx context.Context, t Tenant, root string) (ExecutionState, error) {
	return s.execution(ctx, t, root, "show", admit.ExecutionLimits{})
}

// Revoke ends a root execution: every later reserve and extend of it is
// refused. Of one with a name that none of these can bring nothing is to be
// ended: usage that never asked may have claimed it. ErrExecutions of one that is not known, at twice MaxExecutions of those
// that were never started.
func (s *Store) Revoke(ctx context.Context, t Tenant, root string) error {
	if !nameable(root) {
		return nil
	}
	_, err := s.execution(ctx, t, root, "revoke", admit.ExecutionLimits{})
	return err
}

// CloseExecution marks a root execution as ended by its owner; the next
// reservation or start resumes it. ErrNoExecution if it is not known.
func (s *Store) CloseExecution(ctx context.Context, t Tenant, root string) error {
	_, err := s.execution(ctx, t, root, "close", admit.ExecutionLimits{})
	return err
}

func (s *Store) execution(ctx context.Context, t Tenant, root, verb string, l admit.ExecutionLimits) (ExecutionState, error) {
	if err := checkID("root execution", root); err != nil {
		return ExecutionState{}, err
	}
	return s.callExecution(ctx, t, root, verb, l)
}

// callExecution does not look at the name: it may be that of a branch.
func (s *Store) callExecution(ctx context.Context, t Tenant, root, verb string, l admit.ExecutionLimits) (ExecutionState, error) {
	code, f, err := s.runExecution(ctx, t, root, verb, l)
	switch {
	case err != nil:
		return ExecutionState{}, err
	case code == replyElse:
		return ExecutionState{}, fmt.Errorf("%w: %s", ErrNoExecution, root)
	case code == replyRefused:
		return ExecutionState{}, ErrExecutions
	}
	x := ExecutionState{Own: f.nano(), Held: f.nano(), Calls: f.int(), Known: f.int() == 1, Revoked: f.int() == 1, Closed: f.int() == 1, External: f.nano()}
	x.Limits = admit.ExecutionLimits{MaxCost: money.Nano(orZero(f.int())), MaxDepth: orZero(f.int()), MaxCalls: orZero(f.int())}
	return x, f.err("execution")
}

func (s *Store) runExecution(ctx context.Context, t Tenant, root, verb string, l admit.ExecutionLimits) (byte, *figures, error) {
	return s.run(ctx, "execution "+verb, s.scripts.execution, []string{key(t, "s")}, packed(nil, t.Epoch), verb,
		packed(nil, orNone(int64(l.MaxCost)), orNone(l.MaxDepth), orNone(l.MaxCalls)), millis(s.opts.ExecutionTTL), root, s.at())
}

// orZero is the inverse of orNone.
func orZero(n int64) int64 {
	if n == admit.Unlimited {
		return 0
	}
	return n
}
