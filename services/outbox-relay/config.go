package outboxrelay

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/service"
)

// Config is the relay's configuration. Define fills it from flags and environment.
type Config struct {
	service.Settings
	// Postgres is the URL of the database whose outbox is drained. Session pooling at most: the lead is a session lock.
	Postgres string
	// Poll is the pause after an empty look.
	Poll time.Duration
	// BatchRows and BatchBytes bound one batch; a single larger row comes alone.
	BatchRows, BatchBytes int
	// Rotate is how often published slots are emptied; RotateRows does it earlier, after so many published rows.
	Rotate     time.Duration
	RotateRows int
	// Standby is how often a copy asks whether it may lead.
	Standby time.Duration
	// Grace is how long a batch in flight may take to be acknowledged and recorded after the relay was told to stop.
	Grace time.Duration
}

// Define adds the relay's flags to set; the returned Config is filled once set was loaded.
func Define(set *config.Set) *Config {
	c := &Config{}
	settings := service.Define(set, "127.0.0.1:8082")
	postgres := set.Address("postgres", "", "URL of the database to drain, postgres://user@host:port/name")
	poll := set.Duration("poll", 25*time.Millisecond, "pause after an empty look at the outbox")
	rows := set.Int("batch-rows", 2000, "most rows published at once")
	bytes := set.Int("batch-bytes", 8<<20, "most payload published at once, in bytes")
	rotate := set.Duration("rotate", 10*time.Second, "how often published rows are removed")
	rotateRows := set.Int("rotate-rows", 100_000, "published rows after which they are removed earlier")
	standby := set.Duration("standby", time.Second, "how often a copy that stands by asks for the lead")
	grace := set.Duration("grace", 10*time.Second, "how long a batch in flight may take after the order to stop")
	set.Require("postgres")
	set.Check(func() error {
		*c = Config{Settings: *settings, Postgres: *postgres, Poll: *poll, BatchRows: *rows,
			BatchBytes: *bytes, Rotate: *rotate, RotateRows: *rotateRows, Standby: *standby, Grace: *grace}
		return c.Validate()
	})
	return c
}

// Validate returns everything that is wrong, joined.
func (c Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	for name, d := range map[string]time.Duration{"poll": c.Poll, "rotate": c.Rotate, "standby": c.Standby, "grace": c.Grace} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("-%s must be above zero", name))
		}
	}
	if c.BatchRows < 1 || c.BatchRows > 10_000 {
		errs = append(errs, errors.New("-batch-rows must be 1 to 10000"))
	}
	if c.BatchBytes < 1 || c.BatchBytes > 256<<20 {
		errs = append(errs, errors.New("-batch-bytes must be 1 to 268435456"))
	}
	if c.RotateRows < 1 {
		errs = append(errs, errors.New("-rotate-rows must be above zero"))
	}
	return errors.Join(errs...)
}
