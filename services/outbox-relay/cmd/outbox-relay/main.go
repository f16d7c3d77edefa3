// Command outbox-relay publishes the outbox of one Postgres database to Kafka.
package main

import (
	"os"
	"time"

	"github.com/weir-project/weir/pkg/service"
	outboxrelay "github.com/weir-project/weir/services/outbox-relay"
)

func main() {
	os.Exit(service.Main("outbox-relay", os.LookupEnv, time.Now, outboxrelay.Define, outboxrelay.New))
}
