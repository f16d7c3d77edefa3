package budgetstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Bounds of the stream that concurrent calls share: how many ride in one round
// trip, and how many may wait. One more fails at once, as ErrUnavailable.
const (
	maxShared = 256
	maxQueued = 1 << 16
)

// share opens the stream on which concurrent calls share round trips: what
// arrives while a batch is under way goes out together as the next one, so a
// lone call waits for nobody.
func share(client redis.UniversalClient) (*redis.AutoPipeliner, error) {
	stream, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxBatchSize: maxShared, MaxConcurrentBatches: 1, MaxQueuedCommands: maxQueued})
	if err != nil {
		return nil, fmt.Errorf("redis: shared round trips: %w", err)
	}
	return stream, nil
}

// eval calls a script by its hash, or by its text where Redis has forgotten
// it. It returns at the context's end; Redis may run the call all the same.
func (s *Store) eval(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	cmd := evalSha(ctx, script, keys, args)
	if err := s.stream.Submit(ctx, cmd).WaitContext(ctx); err != nil {
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			return script.Eval(ctx, s.client, keys, args...).Result()
		}
		return nil, err
	}
	return cmd.Val(), nil
}

func evalSha(ctx context.Context, script *redis.Script, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", script.Hash(), len(keys))
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

// maxBatch bounds the calls of one round trip of ReserveBatch.
const maxBatch = 512

// ReserveBatch decides on several reservations, of one tenant or several, in
// one round trip for each 512 of them: each is decided alone, as Reserve
// would, in the given order. One that fails stops none of the others.
func (s *Store) ReserveBatch(ctx context.Context, requests []Request) []Result {
	results := make([]Result, len(requests))
	var open []int // those that go to Redis
	for i, r := range requests {
		if results[i].Err = r.validate(); results[i].Err == nil {
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		n := min(len(open), maxBatch)
		s.reserveAll(ctx, requests, open[:n], results)
		open = open[n:]
	}
	return results
}

// reserveAll is one round trip, or two where Redis has forgotten the script.
func (s *Store) reserveAll(ctx context.Context, requests []Request, open []int, results []Result) {
	script := s.scripts.reserve
	for try := 1; len(open) > 0; try++ {
		pipe, calls := s.client.Pipeline(), make([]*redis.Cmd, 0, len(open))
		for _, i := range open {
			keys, args := s.reserveCall(requests[i])
			cmd := evalSha(ctx, script, keys, args)
			_ = pipe.Process(ctx, cmd) // queues it
			calls = append(calls, cmd)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		var again []int
		for n, i := range open {
			reply, err := calls[n].Result()
			if redis.HasErrorPrefix(err, "NOSCRIPT") && try == 1 {
				again = append(again, i)
				continue
			}
			results[i].Reply, results[i].Err = requests[i].reply(text(reply, err))
		}
		if open = again; len(open) == 0 {
			return
		}
		if err := script.Load(ctx, s.client).Err(); err != nil {
			for _, i := range open {
				results[i].Err = fmt.Errorf("%w: load reserve: %w", ErrUnavailable, err)
			}
			return
		}
	}
}
