package service

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/obs"
)

// Main is the main of a service, whose configuration embeds Settings: it reads that from arguments and environment, builds
// and runs. env is os.LookupEnv, and now time.Now. It returns the exit code: 0 for an orderly end, -help or a good
// -check-config, 1 where it cannot start or fails, 2 for a bad configuration.
func Main[C interface{ settings() Settings }](name string, env func(string) (string, bool), now func() time.Time,
	define func(*config.Set) *C, build func(C, Deps) (*Process, error)) int {
	set := config.New(name, env)
	cfg := define(set)
	if code, ok := set.Load(os.Args[1:], os.Stdout, os.Stderr); !ok {
		return code
	}
	s := (*cfg).settings()
	log, err := obs.NewLogger(os.Stderr, s.LogLevel, s.LogFormat, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 2
	}
	process, err := build(*cfg, Deps{Log: log, Registry: obs.NewRegistry(), Now: now})
	if err != nil {
		log.Error("cannot start", "error", err)
		return 1
	}
	if err := process.Run(context.Background()); err != nil {
		log.Error("ended", "error", err)
		return 1
	}
	return 0
}
