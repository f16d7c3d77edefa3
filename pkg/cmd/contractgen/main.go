// Command contractgen turns the data under topics/, schemas/ and migrations/ into everything that repeats it: Go
// values, reference pages, Kafka manifests, the tables in ARCHITECTURE.md, the Protobuf code and the embedded
// migrations.
//
// It owns those outputs and nothing else. Direction is data -> Go, never Go -> data. Its output is a pure function of
// the working tree: no time, no host, no map order. `-check` writes nothing and names each file that is not current.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code (0 done, 1 not current or invalid, 2 used wrongly).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("contractgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "repository root (the folder of go.work)")
	check := flags.Bool("check", false, "write nothing; exit 1 when a generated file is not current")
	noProto := flags.Bool("no-proto", false, "leave the Protobuf code and its baseline alone")
	noDeps := flags.Bool("no-deps", false, "leave services/*/deps.txt alone")
	accept := flags.Bool("accept-breaking", false, "take a breaking schema change as the new baseline (only before a release)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	out, err := generate(ctx, *root, options{proto: !*noProto, deps: !*noDeps, acceptBreaking: *accept})
	if err != nil {
		fmt.Fprintln(stderr, "contractgen:", err)
		return 1
	}
	if *check {
		stale, err := out.stale(*root)
		if err != nil {
			fmt.Fprintln(stderr, "contractgen:", err)
			return 1
		}
		if len(stale) > 0 {
			fmt.Fprintf(stderr, "contractgen: not current, run `make gen` and commit:\n  %s\n", strings.Join(stale, "\n  "))
			return 1
		}
		fmt.Fprintf(stdout, "contractgen: %d generated files are current\n", len(out.files))
		return 0
	}
	changed, err := out.write(*root)
	if err != nil {
		fmt.Fprintln(stderr, "contractgen:", err)
		return 1
	}
	fmt.Fprintf(stdout, "contractgen: %d files, %d changed\n", len(out.files), len(changed))
	for _, name := range changed {
		fmt.Fprintln(stdout, "  "+name)
	}
	return 0
}
