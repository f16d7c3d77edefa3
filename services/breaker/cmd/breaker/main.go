// Command breaker ends executions that pass a limit of their contract.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/services/breaker"
)

const name = "breaker"

func main() { os.Exit(run()) }

func run() int {
	set := config.New(name, os.LookupEnv)
	cfg := breaker.Define(set)
	if code, ok := set.Load(os.Args[1:], os.Stdout, os.Stderr); !ok {
		return code
	}
	log, err := obs.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 2
	}
	service, err := breaker.New(*cfg, breaker.Deps{Log: log, Registry: obs.NewRegistry(), Now: time.Now})
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
