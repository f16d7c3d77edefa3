package budgetstore

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
)

// Reserve decides on one reservation in one script call: it charges every
// counter, or none. Errors are of the store, or wrap admit.ErrInvalid; a
// refusal is not an error.
func (s *Store) Reserve(ctx context.Context, r Request) (Reply, error) {
	if err := r.validate(); err != nil {
		return Reply{}, err
	}
	keys, args := s.reserveCall(r)
	code, f, err := s.run(ctx, "reserve", s.scripts.reserve, keys, args...)
	if err != nil {
		return Reply{}, err
	}
	switch code {
	case replyDone:
		answer := f.answer()
		return Reply{Verdict: Admitted, Answer: answer}, f.err("reserve")
	case replyElse:
		h := f.hold(r.ID)
		return Reply{Verdict: Replayed, Answer: h.Answer, Context: h.Context}, f.err("reserve")
	case replyRefused:
		refusal := f.refusal()
		return Reply{Verdict: Refused, Refusal: refusal}, f.err("reserve")
	case replyConflict:
		return Reply{Verdict: Conflict}, nil
	case replyEnded:
		return Reply{Verdict: Ended}, nil
	default:
		return Reply{}, fmt.Errorf("%w: reserve: unknown reply %d", ErrUnavailable, code)
	}
}

// reserveCall is the keys and arguments that reserve.lua's header lists.
func (s *Store) reserveCall(r Request) (keys []string, args []any) {
	keys = []string{key(r.Tenant, "s"), key(r.Tenant, "h"), key(r.Tenant, "d"), key(r.Tenant, "e"), key(r.Tenant, "r")}
	if r.Execution.Root != "" {
		keys = append(keys, key(r.Tenant, "x:"+r.Execution.Root))
	}
	return keys, []any{r.packed(), r.Execution.Root, r.Context, s.at(), r.ID, millis(s.opts.ExecutionTTL)}
}

func (r Request) validate() error {
	for _, id := range [][2]string{{"tenant", r.Tenant.ID}, {"reservation id", r.ID}} {
		if err := checkID(id[0], id[1]); err != nil {
			return err
		}
	}
	if r.Execution.Root != "" {
		if err := checkID("root execution", r.Execution.Root); err != nil {
			return err
		}
	}
	if len(r.Context) > MaxContext {
		return fmt.Errorf("%w: context of %d bytes, at most %d", admit.ErrInvalid, len(r.Context), MaxContext)
	}
	if r.Lease <= 0 {
		return fmt.Errorf("%w: lease %s", admit.ErrInvalid, r.Lease)
	}
	if err := r.Execution.Validate(); err != nil {
		return err
	}
	if err := r.Estimate.Validate(); err != nil {
		return err
	}
	return r.Limits.Validate()
}

// packed is the script's first argument; its order is that of reserve.lua.
func (r Request) packed() []byte {
	l, w := r.Limits, r.Calendar.Windows
	steps := ladder.Steps(l.Day.Limit, l.Ladder)
	b := packed(make([]byte, 0, 29*8+24),
		r.Tenant.Epoch, r.Calendar.Clock.UnixMicro(), r.Lease.Microseconds(),
		int64(r.Estimate.Nanos), r.Estimate.InputTokens, r.Estimate.OutputTokens,
		orNone(l.Requests), orNone(l.InputTokens), orNone(l.OutputTokens), l.Concurrency,
		int64(l.Minute.Limit), int64(l.Minute.Cap), int64(l.Day.Limit), int64(l.Day.Cap), int64(l.Month.Limit), int64(l.Month.Cap),
		int64(steps[0]), int64(steps[1]), int64(steps[2]),
		int64(w.Day), w.DayEnds.UnixMicro(), int64(w.NextDay), int64(w.Month), w.MonthEnds.UnixMicro(), int64(w.NextMonth),
		r.Execution.Depth, orNone(int64(r.Execution.MaxCost)), orNone(r.Execution.MaxDepth), orNone(r.Execution.MaxCalls))
	b = append(b, idHash(r.ID)...)
	return append(b, r.Fingerprint[:]...)
}

// orNone turns "0 = no limit" into a limit that no counter passes.
func orNone(n int64) int64 {
	if n == 0 {
		return admit.Unlimited
	}
	return n
}

// answer reads the 21 figures that reserve.lua packs.
func (f *figures) answer() admit.Answer {
	a := admit.Answer{ReservedAt: f.time(), LeaseUntil: f.time(), Day: int32(f.int()), Month: int32(f.int()), Reserved: f.estimate()}
	a.Rung = ladder.Rung(f.int())
	a.DayUsed, a.DayCeiling = f.nano(), f.nano()
	a.Remaining = admit.Remaining{Minute: f.nano(), Day: f.nano(), Month: f.nano(),
		Requests: f.int(), InputTokens: f.int(), OutputTokens: f.int(), Concurrency: f.int()}
	a.Execution.Spent = f.nano()
	if left := f.nano(); left >= 0 {
		a.Execution.Remaining, a.Execution.Limited = left, true
	}
	a.Execution.Calls, a.Execution.Depth = f.int(), f.int()
	return a
}

// refusal reads what reserve.lua and extend.lua pack after their verdict.
func (f *figures) refusal() admit.Refusal {
	code, limit := f.byte(), f.byte()
	r := admit.Refusal{At: f.time(), FreesAt: f.time(), Window: int32(f.int()), Used: f.int(), Asked: f.int(), Ceiling: f.int(), DayUsed: f.nano()}
	r.Code, r.Limit = refusalCode(code), refusalLimit(limit)
	return r
}

func refusalCode(n byte) admit.Code {
	switch n {
	case 1:
		return admit.RateLimited
	case 2:
		return admit.TenantQuotaExceeded
	case 3:
		return admit.EstimateExceedsLimit
	case 4:
		return admit.ExecutionBudgetExceeded
	case 5:
		return admit.ExecutionDepthExceeded
	default:
		return admit.ExecutionRevoked
	}
}

func refusalLimit(n byte) admit.Limit {
	names := [...]admit.Limit{admit.NoLimit, admit.LimitRequests, admit.LimitInputTokens, admit.LimitOutputTokens, admit.LimitConcurrency,
		admit.LimitMinute, admit.LimitDay, admit.LimitMonth, admit.LimitMaxCost, admit.LimitMaxDepth, admit.LimitMaxCalls}
	if int(n) >= len(names) {
		return admit.NoLimit // 11: revoked, which is no limit
	}
	return names[n]
}
