// Command budget-aggregator folds the journal into window totals.
package main

import (
	"os"
	"time"

	"github.com/weir-project/weir/pkg/service"
	budgetaggregator "github.com/weir-project/weir/services/budget-aggregator"
)

func main() {
	os.Exit(service.Main("budget-aggregator", os.LookupEnv, time.Now, budgetaggregator.Define, budgetaggregator.New))
}
