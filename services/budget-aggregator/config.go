package budgetaggregator

import (
	"errors"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/service"
)

// Config is the aggregator's configuration. Define fills it from flags and environment.
type Config struct {
	service.Settings
	// ClickHouse is the URL of the database with the table budget_windows, see clickhouse.Open.
	ClickHouse string
	// MaxWindows bounds the totals in memory, all partitions of this process together.
	MaxWindows int
	// ReadAlong is how often the owner of a partition looks whether a dead owner overwrote something.
	ReadAlong time.Duration
	// SinkBatch bounds one insert into ClickHouse, in totals; SinkLinger is how long the sink waits for a full one.
	SinkBatch  int
	SinkLinger time.Duration
	// Session is after how long without a heartbeat the partitions go to another copy.
	Session time.Duration
}

// Define adds the aggregator's flags to set; the returned Config is filled once set was loaded.
func Define(set *config.Set) *Config {
	c := &Config{}
	settings := service.Define(set, "127.0.0.1:8084")
	clickhouse := set.Address("clickhouse", "", "URL of the ClickHouse database, http://user@host:port/weir")
	windows := set.Int("max-windows", 5_000_000, "most totals held in memory, about 400 bytes each; at the bound a partition stops")
	along := set.Duration("read-along", 10*time.Second, "how often an owner checks its own output for what a dead owner overwrote")
	batch := set.Int("sink-batch", 10_000, "most totals in one insert into ClickHouse")
	linger := set.Duration("sink-linger", time.Second, "how long the sink waits for a full insert")
	session := service.DefineSession(set)
	set.Require("clickhouse")
	set.Check(func() error {
		*c = Config{Settings: *settings, ClickHouse: *clickhouse, MaxWindows: *windows,
			ReadAlong: *along, SinkBatch: *batch, SinkLinger: *linger, Session: *session}
		return c.Validate()
	})
	return c
}

// Validate returns everything that is wrong, joined.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	if c.MaxWindows < 1 {
		errs = append(errs, errors.New("-max-windows must be above zero"))
	}
	if c.ReadAlong <= 0 {
		errs = append(errs, errors.New("-read-along must be above zero"))
	}
	if c.SinkBatch < 1 || c.SinkBatch > 100_000 {
		errs = append(errs, errors.New("-sink-batch must be 1 to 100000"))
	}
	if c.SinkLinger <= 0 {
		errs = append(errs, errors.New("-sink-linger must be above zero"))
	}
	return errors.Join(append(errs, service.CheckSession(c.Session))...)
}
