// Command cost-attributor turns usage events into ledger entries.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/obs"
	costattributor "github.com/weir-project/weir/services/cost-attributor"
)

const name = "cost-attributor"

func main() { os.Exit(run()) }

func run() int {
	set := config.New(name, os.LookupEnv)
	cfg := costattributor.Define(set)
	if code, ok := set.Load(os.Args[1:], os.Stdout, os.Stderr); !ok {
		return code
	}
	log, err := obs.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 2
	}
	service, err := costattributor.New(*cfg, costattributor.Deps{Log: log, Registry: obs.NewRegistry(), Now: time.Now})
	if err != nil {
		log.Error("cannot start", "error", err)
		return 1
	}
	if err := service.Run(context.Background()); err != nil {
		log.Error("ended", "error", err)
		return 1
	}
	return 0
}
