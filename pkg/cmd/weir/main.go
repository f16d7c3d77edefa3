// Command weir runs, fills and questions a Weir: it starts the parts and services, applies tenants, keys and prices,
// and reads bills, ledgers and dead letters.
//
// Exit codes: 0 done, 1 the answer is no, 2 used wrongly, 3 a dependency is away.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, newApp(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process around it.
func run(ctx context.Context, a *app, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(errOut, "weir:", err)
	}
	return exitCode(err)
}
