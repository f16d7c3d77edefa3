// Package embedded leads to the parts that Weir brings itself: what `weir up` runs when no address is given.
//
// It owns the hidden command `weir part …`, the body of the part processes that are our own program. Each part is a
// package below; install brings what they lack, part runs them as processes.
package embedded

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/weir-project/weir/pkg/embedded/clickhouse"
	"github.com/weir-project/weir/pkg/embedded/kafka"
)

// PartCommand runs `weir part kafka|clickhouse …` until SIGTERM or SIGINT. It returns the exit code: 0 ended as asked,
// 1 failed, 2 used wrongly.
func PartCommand(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "which part? kafka or clickhouse")
		return 2
	}
	flags := flag.NewFlagSet("part "+args[0], flag.ContinueOnError)
	var o clickhouse.Options
	flags.StringVar(&o.Dir, "dir", "", "folder of the part's data")
	flags.IntVar(&o.Port, "port", 0, "port on 127.0.0.1")
	if args[0] == "clickhouse" {
		flags.StringVar(&o.Library, "library", "", "path of libchdb.so")
		flags.StringVar(&o.DefaultPasswordFile, "default-password-file", "", "password of the user default; none without it")
		flags.StringVar(&o.FinancePasswordFile, "finance-password-file", "", "password of the user finance; no such user without it")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if o.Dir == "" || o.Port <= 0 || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "a part needs --dir and --port, and no other arguments")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch args[0] {
	case "kafka":
		err = kafka.Run(ctx, o.Dir, o.Port, os.Stderr)
	case "clickhouse":
		err = clickhouse.Run(ctx, o, os.Stderr)
	default:
		fmt.Fprintf(os.Stderr, "no part %q: kafka or clickhouse\n", args[0])
		return 2
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "part %s: %v\n", args[0], err)
		return 1
	}
	return 0
}
