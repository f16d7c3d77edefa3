package httpbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
)

// trivialEvalsha returns a function that does one EVALSHA of a script that does nothing, with the arguments of a usual
// reservation.
func trivialEvalsha(ctx context.Context, redisURL string, now time.Time) (do func(context.Context) error, done func(), err error) {
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, nil, fmt.Errorf("redis address: %w", err)
	}
	client := redis.NewClient(o)
	defer func() {
		if err != nil {
			_ = client.Close()
		}
	}()
	hash, err := client.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return nil, nil, fmt.Errorf("redis: %w", err)
	}
	call, err := sampleCall(ctx, redisURL, now)
	if err != nil {
		return nil, nil, err
	}
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, "evalsha", hash, len(call.Keys))
	for _, k := range call.Keys {
		args = append(args, k)
	}
	args = append(args, call.Args...)
	stream, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxBatchSize: 256, MaxConcurrentBatches: 1, MaxQueuedCommands: 1 << 16})
	if err != nil {
		return nil, nil, fmt.Errorf("redis: %w", err)
	}
	do = func(ctx context.Context) error {
		return stream.Submit(ctx, redis.NewCmd(ctx, args...)).WaitContext(ctx)
	}
	return do, func() { _ = errors.Join(stream.Close(), client.Close()) }, nil
}

// sampleCall has the keys and arguments of a usual reservation.
func sampleCall(ctx context.Context, redisURL string, now time.Time) (budgetstore.Call, error) {
	store, err := budgetstore.Open(ctx, redisURL, budgetstore.Options{})
	if err != nil {
		return budgetstore.Call{}, err
	}
	defer func() { _ = store.Close() }()
	high := admit.Hard(1 << 50)
	return store.ReserveCall(budgetstore.Request{
		Tenant: budgetstore.Tenant{ID: "floor", Epoch: 4_000_000_000_000_007}, ID: "call-10-10-1000", Fingerprint: admit.Content{Model: "gpt-4o"}.Fingerprint(),
		Estimate:  admit.Estimate{Nanos: 5_250_000, InputTokens: 900, OutputTokens: 300},
		Execution: admit.Execution{Root: "root-10", ExecutionLimits: admit.ExecutionLimits{MaxCost: 1 << 50, MaxDepth: 9, MaxCalls: 1 << 40}},
		Limits: admit.Limits{Requests: 1 << 30, InputTokens: 1 << 45, OutputTokens: 1 << 45, Concurrency: 1 << 30, OpenExecutions: 1000,
			Minute: high, Day: high, Month: high, Ladder: ladder.Default()},
		Calendar: admit.CalendarAt(now, time.UTC), Lease: time.Minute, Context: make([]byte, 160),
	}), nil
}
