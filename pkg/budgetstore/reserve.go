package budgetstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Reserve decides on one reservation in one script call: it charges every
// counter, or none. Errors are of the store, or wrap admit.ErrInvalid; a
// refusal is not an error.
func (s *Store) Reserve(ctx context.Context, r Request) (Reply, error) {
	if err := r.validate(); err != nil {
		return Reply{}, err
	}
	keys, args := s.reserveCall(&r)
	return r.reply(text(s.evalShared(ctx, s.reservation(&r, keys, args))))
}

// reservation is the call of one request, of which reserveCall made keys and arguments.
func (s *Store) reservation(r *Request, keys []string, args []any) *sharedCall {
	return &sharedCall{script: s.scripts.reserve, keys: keys, args: args, key: keys[0], joint: s.scripts.batch, parts: r.parts(args)}
}

// reply reads reserve.lua's reply: field "{n" as the call left it, which no
// other reply is as long as, or a verdict byte and its figures.
func (r *Request) reply(text string, err error) (Reply, error) {
	if err == nil && len(text) == nowSize {
		f := &figures{b: []byte(text)}
		return Reply{Verdict: Admitted, Answer: f.decided().answer(r.basis())}, nil
	}
	code, f, err := parse("reserve", text, err)
	if err != nil {
		return Reply{}, err
	}
	switch code {
	case replyElse:
		h := f.hold(r.ID)
		return Reply{Verdict: Replayed, Answer: h.Answer, Context: h.Context}, f.err("reserve")
	case replyRefused:
		refusal := f.refusal(r.Scopes, r.Execution.Branches)
		return Reply{Verdict: Refused, Refusal: refusal}, f.err("reserve")
	case replyConflict:
		return Reply{Verdict: Conflict}, nil
	case replyEnded:
		return Reply{Verdict: Ended}, nil
	default:
		return Reply{}, fmt.Errorf("%w: reserve: unknown reply %d", ErrUnavailable, code)
	}
}

// nowSize is the length of field "{n" (lua/state.lua).
const nowSize = 117

// reserveCall is the keys and arguments that reserve.lua's header lists.
func (s *Store) reserveCall(r *Request) (keys []string, args []any) {
	keys = []string{key(r.Tenant, "s")}
	args = []any{r.packed(s.opts.ExecutionTTL), r.ID, r.kept(), executionField(r.Execution.Root)}
	if len(r.Scopes) > 0 || len(r.Execution.Branches) > 0 {
		return keys, append(args, s.at(), r.scopes())
	}
	if s.opts.ScriptClock != nil {
		args = append(args, s.at())
	}
	return keys, args
}

// executionField is the field of the state in which a root execution is while
// it holds something; without one "", which no field is called.
func executionField(root string) string {
	if root == "" {
		return ""
	}
	return "{x" + root
}

func (r *Request) validate() error {
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
	if r.Lease <= 0 || r.Lease.Microseconds() >= relativeLease {
		return fmt.Errorf("%w: lease %s", admit.ErrInvalid, r.Lease)
	}
	if err := r.Execution.Validate(); err != nil {
		return err
	}
	for _, scope := range r.Scopes {
		if err := checkID("sub-scope", scope.ID); err != nil {
			return err
		}
	}
	for _, branch := range r.Execution.Branches {
		if err := checkID("branch", branch.ID); err != nil {
			return err
		}
	}
	if err := r.ask().Validate(); err != nil {
		return err
	}
	return r.Limits.Validate()
}

// ask is what the rule of pkg/domain/admit decides on.
func (r *Request) ask() admit.Ask {
	return admit.Ask{Estimate: r.Estimate, Saving: r.Saving, Effect: r.Effect, Scopes: r.Scopes}
}

// packed is the script's first argument; its order is that of reserve.lua:
// first what every call needs, then, at fixed places, what only some do.
func (r *Request) packed(ttl time.Duration) []byte {
	l, e, x := r.Limits, r.Estimate, r.Execution.ExecutionLimits
	w := scriptWindows(r.Calendar, l.Rolling30)
	steps := ladder.Steps(l.Day.Limit, l.Ladder)
	// At the end of the day the labels turn: the month's only if it ends there too. Nothing later is within the skew.
	nextMonth := w.Month
	if !w.MonthEnds.After(w.DayEnds) {
		nextMonth = w.NextMonth
	}
	b := doubles(make([]byte, 0, requestSize),
		r.Tenant.Epoch, r.Calendar.Clock.UnixMicro(), w.DayEnds.UnixMicro(), r.Lease.Microseconds(),
		int64(e.Nanos), e.InputTokens, e.OutputTokens,
		orNone(l.Requests), orNone(l.InputTokens), orNone(l.OutputTokens), l.Concurrency,
		int64(l.Minute.Cap), int64(l.Day.Cap), int64(l.Month.Cap), int64(steps[0]), r.Execution.Depth)
	b = labels(b, w.Day, w.Month)
	b = binary.LittleEndian.AppendUint32(b, uint32(min(l.OpenExecutions, math.MaxUint32)))
	b = append(b, idHash(r.ID)...)
	b = labels(b, w.NextDay, nextMonth)
	b = doubles(b, orNone(int64(x.MaxCost)), orNone(x.MaxDepth), orNone(x.MaxCalls), millis(ttl), int64(steps[1]), int64(steps[2]))
	if r.Saving == nil {
		return append(b, byte(r.Effect))
	}
	return doubles(append(b, byte(r.Effect)|withSaving), int64(r.Saving.Nanos), r.Saving.InputTokens, r.Saving.OutputTokens)
}

// scriptWindows are the windows as the scripts know them: the last 30 days are
// a month with today's label.
func scriptWindows(c admit.Calendar, rolling bool) window.Calendar {
	w := c.Windows
	if rolling {
		w.Month, w.MonthEnds, w.NextMonth = w.Day, w.DayEnds, w.NextDay
	}
	return w
}

// requestSize is the length of Request.packed, without a saving estimate.
const requestSize = 16*8 + 3*4 + 6 + 2*4 + 6*8 + 1

// withSaving marks, beside the effect, that a saving estimate follows.
const withSaving = 2

// labels appends days or months.
func labels(b []byte, list ...int32) []byte {
	for _, n := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// kept is what the hold keeps of the request: what it holds and until when,
// which growth and extensions change, and what a repeat's answer is made from.
func (r *Request) kept() []byte {
	e, root := r.Estimate, r.Execution.Root
	b := make([]byte, 0, 4*8+16+2+len(root)+basisSize+len(r.Context))
	b = doubles(b, int64(e.Nanos), e.InputTokens, e.OutputTokens, r.Lease.Microseconds())
	b = append(b, r.Fingerprint[:]...)
	b = append(append(b, byte(len(root))), root...)
	b = append(b, byte(len(r.Scopes)+len(r.Execution.Branches)))
	for _, scope := range r.Scopes {
		b = scopeName(b, scope.Kind, scope.ID)
	}
	for _, branch := range r.Execution.Branches {
		b = scopeName(b, window.Branch, branch.ID)
	}
	figures, n := r.basis(), savingAt
	figures[0] <<= 1
	if r.Saving != nil {
		figures[0] |= 1
		n = len(figures)
	}
	for _, f := range figures[:n] {
		b = binary.AppendUvarint(b, uint64(f))
	}
	return append(b, r.Context...)
}

// basis is what an answer needs of the request, so that a repeat under other
// limits is told the same: lease (µs), estimate, stated limits for dollars a
// minute, day and month, for requests, input, output and concurrency, depth;
// and the saving estimate, which is stored only if there is one: lease × 2 + 1
// says so. None is negative.
type basis [15]int64

const (
	basisSize  = 15 * 8 // more if need be
	savingAt   = 12
	estimateAt = 1
)

func (r *Request) basis() basis {
	l, e := r.Limits, r.Estimate
	b := basis{r.Lease.Microseconds(), int64(e.Nanos), e.InputTokens, e.OutputTokens,
		int64(l.Minute.Limit), int64(l.Day.Limit), int64(l.Month.Limit),
		orNone(l.Requests), orNone(l.InputTokens), orNone(l.OutputTokens), l.Concurrency, r.Execution.Depth}
	if s := r.Saving; s != nil {
		b[savingAt], b[savingAt+1], b[savingAt+2] = int64(s.Nanos), s.InputTokens, s.OutputTokens
	}
	return b
}

func (f *figures) basis() basis {
	var b basis
	b[0] = f.uvarint()
	n := savingAt
	if b[0]&1 != 0 {
		n = len(b)
	}
	b[0] >>= 1
	for i := 1; i < n; i++ {
		b[i] = f.uvarint()
	}
	return b
}

// decided is field "{n" as the call left it, which is reserve.lua's reply: the
// answer is made from it.
type decided struct {
	at                        time.Time
	requests, in, out, minute int64 // in the sliding minute; minute without external
	today                     int32 // label of the day
	day, month                dollars
	running                   int64
	rung, before              ladder.Rung
	saving                    bool
	external                  int64 // of the minute
	spent, calls, maxCost     int64 // of the execution
}

// dollars are of a day or month: own includes this call.
type dollars struct{ own, external int64 }

func (f *figures) decided() decided {
	var d decided
	d.at = time.UnixMicro(f.double()).UTC()
	d.requests, d.in, d.out, d.minute = int64(f.label()), f.double(), f.double(), f.double()
	d.today, d.day, d.month = f.label(), f.dollars(), f.dollars()
	d.running = int64(f.label())
	f.bytes(8)       // leases
	told := f.byte() // packed as lua/state.lua says
	d.rung, d.before, d.saving = ladder.Rung(told&7), ladder.Rung(told>>3&7), told&64 != 0
	d.external = f.double()
	d.spent, d.calls, d.maxCost = f.double(), f.double(), f.double()
	return d
}

func (f *figures) dollars() dollars { return dollars{own: f.double(), external: f.double()} }

// answer is what an admitted call is told: what is left counts this call,
// what was used of the day does not.
func (d decided) answer(b basis) admit.Answer {
	day, month, e := d.day.own+d.day.external, d.month.own+d.month.external, b[estimateAt:]
	if d.saving {
		e = b[savingAt:]
	}
	a := admit.Answer{ReservedAt: d.at, LeaseUntil: d.at.Add(time.Duration(b[0]) * time.Microsecond),
		Day: d.today, Month: d.today / 100, Saving: d.saving, Rung: d.rung, RungBefore: d.before,
		Reserved: admit.Estimate{Nanos: money.Nano(e[0]), InputTokens: e[1], OutputTokens: e[2]},
		DayUsed:  money.Nano(day - e[0]), DayCeiling: money.Nano(b[5])}
	a.Remaining = admit.Remaining{
		Minute: money.Nano(b[4] - d.minute - d.external), Day: money.Nano(b[5] - day), Month: money.Nano(b[6] - month),
		Requests: b[7] - d.requests, InputTokens: b[8] - d.in, OutputTokens: b[9] - d.out, Concurrency: b[10] - d.running}
	a.Execution = admit.ExecutionFigures{Spent: money.Nano(d.spent), Calls: d.calls, Depth: b[11]}
	if d.maxCost < admit.Unlimited {
		a.Execution.Remaining, a.Execution.Limited = money.Nano(d.maxCost-d.spent), true
	}
	return a
}

// orNone turns "0 = no limit" into a limit that no counter passes.
func orNone(n int64) int64 {
	if n == 0 {
		return admit.Unlimited
	}
	return n
}

// refusal reads what reserve.lua and extend.lua pack after their verdict.
// scopes and branches are those that the call brought; branches are counted
// first.
func (f *figures) refusal(scopes []ScopeLimit, branches []admit.Branch) admit.Refusal {
	code, limit := f.byte(), f.byte()
	r := admit.Refusal{At: f.time(), FreesAt: f.time(), Window: dayLabel(f.int()), Used: f.int(), Asked: f.int(), Ceiling: f.int(), DayUsed: f.nano()}
	r.Code, r.Limit = refusalCode(code), refusalLimit(limit)
	n := f.byte()
	switch at := int(n&^sharedScope) - 1; {
	case at < 0:
	case at < len(branches):
		r.ScopeKind, r.ScopeID = window.Branch, branches[at].ID
	case at < len(branches)+len(scopes):
		scope := scopes[at-len(branches)]
		r.ScopeKind, r.ScopeID = scope.Kind, scope.ID
		if n&sharedScope != 0 {
			r.ScopeID = window.OtherScope
		}
	}
	return r
}

// sharedScope marks, beside a sub-scope's place in the request, that it is
// the one that values beyond the bound share.
const sharedScope = 128

// dayLabel is a window of a refusal: a label already, or the number of a day
// since 1970, which is below every label.
func dayLabel(n int64) int32 {
	const leastMonth = 197001
	if n == 0 || n >= leastMonth {
		return int32(n)
	}
	return window.DayOf(time.Unix(n*24*3600, 0), time.UTC)
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
	case 7:
		return admit.ToolDeferred
	case 8:
		return admit.ReadOnlyMode
	default:
		return admit.ExecutionRevoked
	}
}

func refusalLimit(n byte) admit.Limit {
	names := [...]admit.Limit{admit.NoLimit, admit.LimitRequests, admit.LimitInputTokens, admit.LimitOutputTokens, admit.LimitConcurrency,
		admit.LimitMinute, admit.LimitDay, admit.LimitMonth, admit.LimitMaxCost, admit.LimitMaxDepth, admit.LimitMaxCalls,
		admit.NoLimit /* revoked, or barred by the rung */, admit.LimitOpenExecutions}
	if int(n) >= len(names) {
		return admit.NoLimit
	}
	return names[n]
}
