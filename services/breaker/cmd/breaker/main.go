// Command breaker ends executions that pass a limit of their contract.
package main

import (
	"os"
	"time"

	"github.com/weir-project/weir/pkg/service"
	"github.com/weir-project/weir/services/breaker"
)

func main() {
	os.Exit(service.Main("breaker", os.LookupEnv, time.Now, breaker.Define, breaker.New))
}
