// Command admission runs one replica of the admission service.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/services/admission"
)

// gcPercent lets the heap grow to five times what is alive before it is collected. That is little here, a few tens of MB
// of catalogs, and requests make much that dies at once. GOGC overrides it.
const gcPercent = 400

func main() { os.Exit(run()) }

// run returns the exit code: 0 stopped in order, 1 failed while running, 2 bad configuration, 3 a dependency was away.
func run() int {
	cfg, code, ok := admission.LoadConfig(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	if !ok {
		return code
	}
	log, err := obs.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat, "admission")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	s, err := admission.New(ctx, cfg, admission.Deps{Log: log, Registry: obs.NewRegistry(), Now: time.Now, Random: rand.Reader})
	if err != nil {
		log.Error("cannot start", "error", err)
		return 3
	}
	if err := s.Run(ctx); err != nil {
		log.Error("stopped", "error", err)
		return 1
	}
	return 0
}
