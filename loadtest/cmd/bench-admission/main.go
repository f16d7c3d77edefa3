// Command bench-admission is `make bench-admission`: it measures admission against its references in one run and prints
// one line of JSON per figure. It starts what it needs, or takes a Redis that holds nothing of value by -redis. The
// service is the binary beside its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weir-project/weir/pkg/httpbench"
)

// floor is the hidden command that serves the reference over HTTP.
const floor = "floor"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-admission:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	url := flag.String("redis", "", "a Redis to measure in, which is emptied and whose settings are changed; default: one of its own")
	only := flag.String("only", "", "store or http: measure that alone")
	verbose := flag.Bool("v", false, "say on standard error what each slot over HTTP did")
	flag.Parse()
	if flag.NArg() == 4 && flag.Arg(0) == floor {
		return httpbench.RunFloor(ctx, flag.Arg(1), flag.Arg(2), flag.Arg(3), time.Now())
	}
	if flag.NArg() > 0 || *only != "" && *only != "store" && *only != "http" {
		return errors.New("usage: bench-admission [-redis URL] [-only store|http] [-v]")
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *only != "http" {
		if err := overStore(ctx, *url, filepath.Join(dir, "store")); err != nil {
			return err
		}
	}
	if *only != "store" {
		var log io.Writer
		if *verbose {
			log = os.Stderr
		}
		return overHTTP(ctx, *url, dir, log)
	}
	return nil
}
