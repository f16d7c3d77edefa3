// Command bench-admission is `make bench-admission`: it measures admission against its references in one run and prints
// one line of JSON per figure. It starts a Redis of its own, or takes one that holds nothing of value by -redis.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/redis"
	"github.com/weir-project/weir/pkg/storebench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-admission:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	url := flag.String("redis", "", "a Redis to measure in, whose statistics and append-only setting are changed; default: one of its own")
	flag.Parse()
	if flag.NArg() > 0 {
		return errors.New("usage: bench-admission [-redis URL]")
	}
	if *url == "" {
		own, stop, err := startRedis(ctx)
		if err != nil {
			return err
		}
		defer stop()
		*url = own
	}
	figures, err := storebench.Figures(ctx, *url, time.Now)
	out := json.NewEncoder(os.Stdout)
	for _, f := range figures {
		if err := out.Encode(f); err != nil {
			return fmt.Errorf("write figure: %w", err)
		}
	}
	return err
}

// startRedis runs a Redis in a temporary folder; stop ends both.
func startRedis(ctx context.Context) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("folder: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	installer, err := install.New("", nil)
	if err != nil {
		remove()
		return "", nil, err
	}
	binary, err := installer.Redis(ctx)
	if err != nil {
		remove()
		return "", nil, err
	}
	p, err := redis.Start(ctx, redis.Config{Config: part.Config{Dir: dir}, Binary: binary})
	if err != nil {
		remove()
		return "", nil, err
	}
	return p.Address, func() { _ = p.Stop(part.DefaultGrace); remove() }, nil
}
