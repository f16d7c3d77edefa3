// Command cost-attributor turns usage events into ledger entries.
package main

import (
	"os"
	"time"

	"github.com/weir-project/weir/pkg/service"
	costattributor "github.com/weir-project/weir/services/cost-attributor"
)

func main() {
	os.Exit(service.Main("cost-attributor", os.LookupEnv, time.Now, costattributor.Define, costattributor.New))
}
