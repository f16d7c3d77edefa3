package costattributor

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/service"
)

// Config is the attributor's configuration. Define fills it from flags and environment.
type Config struct {
	service.Settings
	// ClickHouse is the URL of the database with agent_cost_ledger, see clickhouse.Open.
	ClickHouse string
	// Secret is what admission and breaker sign with.
	Secret identity.Secret
	// TrustTopic: an event may name its tenant without proof, because only the operator's own may write the topic.
	TrustTopic bool
	// MaxIDs bounds the events remembered per partition: 60 bytes each, 130 of a reservation, 260 with a provider's response id.
	MaxIDs int
	// Batch bounds one write to the journal, in usage events.
	Batch int
	// SinkBatch bounds one insert into ClickHouse, in rows; SinkLinger is how long the sink waits for a full one.
	SinkBatch  int
	SinkLinger time.Duration
	// Session is after how long without a heartbeat the partitions go to another copy.
	Session time.Duration
}

// Define adds the attributor's flags to set; the returned Config is filled once set was loaded.
func Define(set *config.Set) *Config {
	c := &Config{}
	settings := service.Define(set, "127.0.0.1:8083")
	clickhouse := set.Address("clickhouse", "", "URL of the ClickHouse database, http://user@host:port/weir")
	secret := set.Secret("hmac-secret", "key that admission and breaker sign with, at least 32 bytes")
	trust := set.Bool("trust-topic", false, "accept the tenant that an unsigned event names itself: only where no one else may write usage.events.v1")
	ids := set.Int("max-ids", 20_000_000, "most events remembered per partition, 60 to 260 bytes each; at the bound the partition stops")
	batch := set.Int("batch", 1000, "most usage events in one write to the journal")
	sinkBatch := set.Int("sink-batch", 10_000, "most rows in one insert into ClickHouse")
	linger := set.Duration("sink-linger", time.Second, "how long the ledger sink waits for a full insert")
	session := service.DefineSession(set)
	set.Require("clickhouse")
	set.Check(func() error {
		*c = Config{Settings: *settings, ClickHouse: *clickhouse, TrustTopic: *trust, MaxIDs: *ids,
			Batch: *batch, SinkBatch: *sinkBatch, SinkLinger: *linger, Session: *session}
		var err error
		if c.Secret, err = identity.NewSecret([]byte(secret.Value())); err != nil {
			err = fmt.Errorf("-hmac-secret-file: %w", err)
		}
		return errors.Join(err, c.Validate())
	})
	return c
}

// Validate returns everything that is wrong, joined; Define has checked the secret.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	for _, n := range []struct {
		name       string
		value, max int
	}{{"-max-ids", c.MaxIDs, 1 << 31}, {"-batch", c.Batch, 10_000}, {"-sink-batch", c.SinkBatch, 100_000}} {
		if n.value < 1 || n.value > n.max {
			errs = append(errs, fmt.Errorf("%s must be 1 to %d", n.name, n.max))
		}
	}
	if c.SinkLinger <= 0 {
		errs = append(errs, errors.New("-sink-linger must be above zero"))
	}
	return errors.Join(append(errs, service.CheckSession(c.Session))...)
}
