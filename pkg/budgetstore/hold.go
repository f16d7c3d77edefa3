package budgetstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Hold reads one hold; ErrNoHold if it has ended or never was.
func (s *Store) Hold(ctx context.Context, t Tenant, id string) (Hold, error) {
	if !nameable(id) { // not a hold's field, but maybe another one
		return Hold{}, ErrNoHold
	}
	ask := redis.NewSliceCmd(ctx, "hmget", key(t, "s"), "{", "{h"+id, id)
	if err := s.shared.do(ctx, key(t, "s"), &sharedCall{cmd: ask}); err != nil {
		return Hold{}, fmt.Errorf("%w: hold: %w", ErrUnavailable, err)
	}
	fields := ask.Val()
	expiring, err := expiringIn(fields, t.Epoch)
	if err != nil {
		return Hold{}, err
	}
	head, _ := fields[1].(string)
	kept, open := fields[2].(string)
	if !open {
		if expiring == 0 {
			return Hold{}, ErrNoHold
		}
		return s.expiring(ctx, t, id)
	}
	f := &figures{b: []byte(head + kept)}
	h := f.hold(id)
	return h, f.err("hold")
}

// expiringIn is how many holds of a tenant wait for the reaper, by the first of
// the fields, which is the state; an error if that is not of the epoch.
func expiringIn(fields []any, epoch int64) (int32, error) {
	if len(fields) != 3 {
		return 0, fmt.Errorf("%w: hold: %d fields", ErrUnavailable, len(fields))
	}
	state, ok := fields[0].(string)
	if !ok {
		return 0, fmt.Errorf("hold: %w", ErrLost)
	}
	f := &figures{b: []byte(state)}
	if of := f.double(); of != epoch && of != -epoch {
		return 0, fmt.Errorf("hold: %w", ErrEpoch)
	}
	f.bytes(expiringAt - 8)
	n := f.label()
	return n, f.err("hold")
}

// expiringAt is where field "{" counts the expiring holds (lua/state.lua).
const expiringAt = 20

// expiring reads a hold that waits for the reaper.
func (s *Store) expiring(ctx context.Context, t Tenant, id string) (Hold, error) {
	ask := redis.NewStringCmd(ctx, "hget", key(t, "e"), id)
	err := s.shared.do(ctx, key(t, "e"), &sharedCall{cmd: ask})
	if errors.Is(err, redis.Nil) {
		return Hold{}, ErrNoHold
	}
	if err != nil {
		return Hold{}, fmt.Errorf("%w: hold: %w", ErrUnavailable, err)
	}
	f := &figures{b: []byte(ask.Val())}
	h := f.hold(id)
	h.State = HoldExpiring
	return h, f.err("hold")
}

// hold reads the bytes of a hold: field "{h<id>", then field "<id>".
func (f *figures) hold(id string) Hold {
	h := Hold{ID: id}
	d := f.decided()
	h.Held = f.estimateOfDoubles()
	ends := f.double()
	copy(h.Fingerprint[:], f.bytes(len(h.Fingerprint)))
	h.Root = string(f.bytes(int(f.byte())))
	h.Scopes, h.Branches = f.scopeNames()
	h.Answer = d.answer(f.basis())
	h.LeaseUntil = time.UnixMicro(ends).UTC()
	if ends < relativeLease {
		h.LeaseUntil = d.at.Add(time.Duration(ends) * time.Microsecond)
	}
	h.Context = f.b
	return h
}

// relativeLease bounds lease ends that count from the reservation: 11 days in µs.
const relativeLease = 1_000_000_000_000

// Settle replaces a hold by the actual, in the windows where it was reserved.
// An actual above the hold is charged whatever the ceilings say.
func (s *Store) Settle(ctx context.Context, r Ref, actual admit.Estimate) (Ending, error) {
	if err := actual.Validate(); err != nil {
		return Ending{}, err
	}
	return s.finish(ctx, "settle", r, false, actual)
}

// Release ends a hold whose call was not made or cost nothing: dollars,
// tokens and concurrency come back, the request stays counted.
func (s *Store) Release(ctx context.Context, r Ref) (Ending, error) {
	return s.finish(ctx, "release", r, false, admit.Estimate{})
}

// Expire clears a hold whose owner died; its estimate stays counted.
func (s *Store) Expire(ctx context.Context, r Ref) (Ending, error) {
	return s.finish(ctx, "expire", r, true, admit.Estimate{})
}

// finish ends a hold; keeps leaves its estimate counted in the place of the actual.
func (s *Store) finish(ctx context.Context, name string, r Ref, keeps bool, actual admit.Estimate) (Ending, error) {
	keys, args := s.finishCall(r, keeps, actual)
	reply, err := text(s.evalShared(ctx, s.end(keys, args)))
	return ending(name, reply, err)
}

// end is the call that ends one hold, of which finishCall made keys and arguments.
func (s *Store) end(keys []string, args []any) *sharedCall {
	return &sharedCall{script: s.scripts.finish, keys: keys, args: args, key: keys[0], joint: s.scripts.finish, parts: args[:finishParts:finishParts]}
}

// ending reads finish.lua's reply for one hold.
func ending(name, reply string, err error) (Ending, error) {
	code, f, err := parse(name, reply, err)
	if err != nil || code == replyElse {
		return Ending{}, err
	}
	e := Ending{Applied: true, Held: f.estimateOfDoubles()}
	return e, f.err(name)
}

// finishCall is the keys and arguments that finish.lua's header lists.
func (s *Store) finishCall(r Ref, keeps bool, actual admit.Estimate) (keys []string, args []any) {
	arg := doubles(make([]byte, 0, finishSize), r.Tenant.Epoch, r.ReservedAt.UnixMicro(), int64(actual.Nanos), actual.InputTokens, actual.OutputTokens)
	arg = binary.LittleEndian.AppendUint32(arg, uint32(s.remembered()))
	mode := byte(0)
	if keeps {
		mode = 1
	}
	arg = append(append(arg, mode), idHash(r.ID)...)
	return []string{key(r.Tenant, "s")}, withClock([]any{arg, r.ID, executionField(r.Root)}, s.at())
}

// finishParts is how many arguments finish.lua takes for each hold.
const finishParts = 3

// Lengths of finish.lua's packed request, and of its reply for a hold that it ended.
const (
	finishSize = 5*8 + 4 + 1 + 6
	endingSize = 1 + 3*8
)

// remembered is how long an ended id is known, in whole seconds.
func (s *Store) remembered() int64 { return int64((s.opts.MaxLease + time.Second - 1) / time.Second) }

// Extend is a heartbeat: it moves the lease and grows the hold, or says stop.
func (s *Store) Extend(ctx context.Context, r ExtendRequest) (ExtendReply, error) {
	if err := r.AtLeast.Validate(); err != nil {
		return ExtendReply{}, err
	}
	if err := r.Limits.Validate(); err != nil {
		return ExtendReply{}, err
	}
	if err := errors.Join((admit.Ask{Scopes: r.Scopes}).Validate(), admit.Execution{Branches: r.Branches}.Validate()); err != nil {
		return ExtendReply{}, err
	}
	if r.Lease <= 0 {
		return ExtendReply{}, fmt.Errorf("%w: lease %s", admit.ErrInvalid, r.Lease)
	}
	l := r.Limits
	arg := packed(nil, r.Tenant.Epoch, r.ReservedAt.UnixMicro(), r.Calendar.Clock.UnixMicro(), r.Lease.Microseconds(),
		int64(r.AtLeast.Nanos), r.AtLeast.InputTokens, r.AtLeast.OutputTokens, orNone(l.InputTokens), orNone(l.OutputTokens),
		int64(l.Minute.Cap), int64(l.Day.Cap), int64(l.Month.Cap))
	var scopes []byte
	for _, branch := range r.Branches {
		scopes = scopeName(doubles(scopes, 0, 0, int64(branch.MaxCost)), window.Branch, branch.ID)
	}
	for _, scope := range r.Scopes {
		scopes = scopeName(doubles(scopes, int64(scope.Minute.Cap), int64(scope.Day.Cap), int64(scope.Month.Cap)), scope.Kind, scope.ID)
	}
	t := r.Tenant
	code, f, err := s.run(ctx, "extend", s.scripts.extend, []string{key(t, "s")}, arg, r.ID, s.at(), scopes)
	if err != nil || code == replyElse {
		return ExtendReply{}, err
	}
	out := ExtendReply{Found: true}
	if code == replyRefused {
		out.Stop, out.Refusal = true, f.refusal(r.Scopes, r.Branches)
		return out, f.err("extend")
	}
	out.LeaseUntil, out.Held = f.time(), f.estimate()
	return out, f.err("extend")
}

// Due moves leases that have run out to HoldExpiring and returns up to most
// holds in that state, those of earlier calls too, by lease end. Each is to be
// ended by Expire (or Settle) after Postgres has decided.
func (s *Store) Due(ctx context.Context, t Tenant, most int) ([]Hold, error) {
	reply, err := s.eval(ctx, s.scripts.due, []string{key(t, "s"), key(t, "e")}, packed(nil, t.Epoch), most, s.at())
	if err != nil {
		return nil, fmt.Errorf("%w: due: %w", ErrUnavailable, err)
	}
	if text, ok := reply.(string); ok && text != "" {
		if err := storeError(text[0]); err != nil {
			return nil, fmt.Errorf("due: %w", err)
		}
	}
	list, _ := reply.([]any)
	holds := make([]Hold, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		id, _ := list[i].(string)
		text, _ := list[i+1].(string)
		f := &figures{b: []byte(text)}
		h := f.hold(id)
		h.State = HoldExpiring
		if err := f.err("due"); err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	slices.SortFunc(holds, func(a, b Hold) int { return a.LeaseUntil.Compare(b.LeaseUntil) })
	return holds, nil
}

// WithDue returns those of the tenants that have something for Due, in one
// round trip: for a reaper that walks many. now is compared with lease ends,
// which are of the store's clock; a second more or less does not matter.
func (s *Store) WithDue(ctx context.Context, tenants []Tenant, now time.Time) ([]Tenant, error) {
	ask := func() ([]redis.Cmder, error) {
		return s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, t := range tenants {
				s.scripts.owes.EvalSha(ctx, p, []string{key(t, "s")}, now.UnixMicro())
			}
			return nil
		})
	}
	answers, err := ask()
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // a pipeline cannot fall back to the text by itself
		if err = s.scripts.owes.Load(ctx, s.client).Err(); err == nil {
			answers, err = ask()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: due: %w", ErrUnavailable, err)
	}
	var due []Tenant
	for i, t := range tenants {
		if cmd, ok := answers[i].(*redis.Cmd); ok && cmd.Val() == int64(1) {
			due = append(due, t)
		}
	}
	return due, nil
}
