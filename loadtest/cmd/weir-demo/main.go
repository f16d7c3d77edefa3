// Command weir-demo is `make run`: it starts a Weir afresh, plays one hour of real traffic through it in about a minute,
// and ends with the bill, its check and the audit. Exit 0 only if both are right.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/loadtest/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("where am I: %w", err)
	}
	c := demo.Config{Bin: filepath.Dir(self), Out: os.Stdout, Width: width(os.Stdout)}
	var kafka string
	flag.StringVar(&c.Dir, "dir", ".weir/demo", "folder of the instance; it is wiped")
	flag.StringVar(&kafka, "kafka", "embedded", "embedded or apache")
	flag.BoolVar(&c.Once, "once", false, "end after the audit instead of staying up")
	flag.Int64Var(&c.Speed, "speed", 60, "how much faster than the trace's hour")
	flag.Parse()
	c.Apache = kafka == "apache"
	if !c.Apache && kafka != "embedded" || flag.NArg() > 0 || c.Speed < 1 {
		return errors.New("usage: weir-demo [--once] [--kafka embedded|apache] [--dir D] [--speed N]")
	}
	return demo.Run(ctx, c)
}

// width is that of the terminal behind f, 0 if it is none or cannot move its cursor.
func width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || os.Getenv("TERM") == "dumb" || size.Col < 40 {
		return 0
	}
	return int(size.Col)
}
