package httpbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
)

// RunFloor serves the reference until ctx ends: a bare handler that reads the body, does one trivial EVALSHA with as
// many arguments as a reservation's, through a client that pipelines as the budget store's does, and answers "ok". It
// writes its address to out, in a line.
func RunFloor(ctx context.Context, redisURL string, now time.Time, out io.Writer) error {
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return fmt.Errorf("redis address: %w", err)
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	stream, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxBatchSize: 256, MaxConcurrentBatches: 1, MaxQueuedCommands: 1 << 16})
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer func() { _ = stream.Close() }()
	hash, err := client.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	call, err := sampleCall(ctx, redisURL, now)
	if err != nil {
		return err
	}
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, "evalsha", hash, len(call.Keys))
	for _, k := range call.Keys {
		args = append(args, k)
	}
	args = append(args, call.Args...)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		cmd := redis.NewCmd(r.Context(), args...)
		if err := stream.Submit(r.Context(), cmd).WaitContext(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "ok")
	})
	return serve(ctx, handler, out)
}

func serve(ctx context.Context, handler http.Handler, out io.Writer) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("say where: %w", err)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
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
		Calendar: admit.CalendarAt(now, time.UTC), Lease: time.Minute, Context: make([]byte, 250),
	}), nil
}
