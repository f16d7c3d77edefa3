// Command admission runs one replica of the admission service.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/services/admission"
)

// The heap may grow to five times what is alive before it is collected, and what is alive counts as this much more, which is
// address space that no memory stands behind. Alive are a few tens of MB, catalogs and remembered holds, and marking them
// costs the same whenever it is done, while requests make much that dies at once: so it is done at every 350 MB that they
// make or so, not at every 100. GOGC in the environment overrides both.
const (
	gcPercent = 400
	gcBallast = 64 << 20
)

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
		ballast := make([]byte, gcBallast)
		defer runtime.KeepAlive(ballast)
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
