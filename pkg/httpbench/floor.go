package httpbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// commitPath is where the floor commits a row. Everywhere else it asks Redis.
const commitPath = "/commit"

// RunFloor serves the references until ctx ends, bare handlers that read the body and answer "ok": one does one trivial
// EVALSHA with as many arguments as a reservation's, by go-redis' own pipelining, which shares round trips as the budget
// store's streams do; the other inserts and commits one row through a pool of the size that admission has.
func RunFloor(ctx context.Context, redisURL, postgresURL, address string, now time.Time) error {
	evalsha, closeRedis, err := trivialEvalsha(ctx, redisURL, now)
	if err != nil {
		return err
	}
	defer closeRedis()
	pool, err := openPool(ctx, postgresURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	var rows atomic.Int64
	commit := func(ctx context.Context) error {
		return insertRow(ctx, pool, "http-"+strconv.FormatInt(rows.Add(1), 10))
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+commitPath, bare(http.StatusOK, commit))
	mux.Handle("POST /", bare(http.StatusCreated, evalsha))
	mux.Handle("GET /readyz", bare(http.StatusOK, func(context.Context) error { return nil }))
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// bare is a handler that reads the body, does one thing and answers "ok".
func bare(status int, do func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := do(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "ok")
	})
}
