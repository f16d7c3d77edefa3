package budgetstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// eval calls a script by its hash, or by its text where Redis has forgotten
// it. It returns at the context's end; Redis may run the call all the same.
func (s *Store) eval(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	return s.evalShared(ctx, &sharedCall{script: script, keys: keys, args: args})
}

// evalShared is eval of a call that may be made together with others.
func (s *Store) evalShared(ctx context.Context, call *sharedCall) (any, error) {
	if err := s.shared.do(ctx, call.keys[0], call); err != nil {
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			return call.script.Eval(ctx, s.client, call.keys, call.args...).Result()
		}
		return nil, err
	}
	return call.result()
}

func evalSha(ctx context.Context, hash string, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", hash, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// text is a script's reply that must be a string.
func text(reply any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("unexpected reply %T", reply)
	}
	return s, nil
}

// Result is the decision on one Request of a batch, or why there is none.
type Result struct {
	Reply Reply
	Err   error
}

// Bounds of ReserveBatch: calls of one round trip, and of one script call,
// which stays below a millisecond of Redis' time with them.
const (
	maxBatch = 512
	maxGroup = 64
)

// ReserveBatch decides on several reservations, of one tenant or several, in
// one round trip for each 512 of them: each is decided alone, as Reserve
// would, those of a tenant in the given order. One that is refused or is not
// valid stops none of the others.
func (s *Store) ReserveBatch(ctx context.Context, requests []Request) []Result {
	results := make([]Result, len(requests))
	var groups [][]int         // indexes of requests that share a script call
	latest := map[string]int{} // the last group of a tenant
	for i := range requests {
		r := &requests[i]
		if results[i].Err = r.validate(); results[i].Err != nil {
			continue
		}
		g, ok := latest[r.Tenant.ID]
		if !ok || len(groups[g]) == maxGroup {
			g = len(groups)
			latest[r.Tenant.ID] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	for len(groups) > 0 {
		n, calls := 0, 0
		for n < len(groups) && (n == 0 || calls+len(groups[n]) <= maxBatch) {
			calls += len(groups[n])
			n++
		}
		s.reserveAll(ctx, requests, groups[:n], results)
		groups = groups[n:]
	}
	return results
}

// reserveAll is one round trip, or two where Redis has forgotten the script.
func (s *Store) reserveAll(ctx context.Context, requests []Request, groups [][]int, results []Result) {
	for try := 1; len(groups) > 0; try++ {
		pipe, calls := s.client.Pipeline(), make([]*redis.Cmd, 0, len(groups))
		for _, group := range groups {
			cmd := evalSha(ctx, s.scripts.batch.Hash(), []string{key(requests[group[0]].Tenant, "s")}, s.batchArgs(requests, group))
			_ = pipe.Process(ctx, cmd) // queues it
			calls = append(calls, cmd)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		var again [][]int
		for n, group := range groups {
			reply, err := calls[n].Slice()
			if redis.HasErrorPrefix(err, "NOSCRIPT") && try == 1 {
				again = append(again, group)
				continue
			}
			groupReplies(requests, group, reply, err, results)
		}
		if groups = again; len(groups) == 0 {
			return
		}
		if err := s.scripts.batch.Load(ctx, s.client).Err(); err != nil {
			for _, group := range groups {
				groupReplies(requests, group, nil, fmt.Errorf("%w: load batch: %w", ErrUnavailable, err), results)
			}
			return
		}
	}
}

// batchArgs are what batch.lua's header lists.
func (s *Store) batchArgs(requests []Request, group []int) []any {
	args := make([]any, 0, 1+batchParts*len(group))
	for _, i := range group {
		_, own := s.reserveCall(&requests[i])
		args = append(args, requests[i].parts(own)...)
	}
	return withClock(args, s.at())
}

// batchParts is how many arguments batch.lua takes for each reservation.
const batchParts = 5

// parts are those of this one, of which reserveCall has made all but the last.
func (r *Request) parts(own []any) []any {
	return append(append(make([]any, 0, batchParts), own[:batchParts-1]...), r.scopes())
}

// groupReplies reads the replies of one script call.
func groupReplies(requests []Request, group []int, replies []any, err error, results []Result) {
	if err == nil && len(replies) != len(group) {
		err = fmt.Errorf("%w: batch: %d replies to %d calls", ErrUnavailable, len(replies), len(group))
	}
	for n, i := range group {
		var reply any
		if err == nil {
			reply = replies[n]
		}
		results[i].Reply, results[i].Err = requests[i].reply(text(reply, err))
	}
}
