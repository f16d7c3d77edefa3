// Command weir runs, fills and questions a Weir: it starts the parts and services, applies tenants, keys and prices,
// and reads bills, ledgers and dead letters.
//
// Exit codes: 0 done, 1 the answer is no, 2 used wrongly, 3 a dependency is away (design.md, section 12).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run is main without the process around it.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(os.Stderr, "weir:", err)
	}
	return exitCode(err)
}
