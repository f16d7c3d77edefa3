package breaker

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/obs"
)

// Config is the breaker's configuration. Define fills it from flags and environment.
type Config struct {
	// Kafka is a client URL, see bus.ParseAddress.
	Kafka string
	// HTTP is host:port of health and metrics.
	HTTP string
	// LogLevel is debug, info, warn or error; LogFormat json or text.
	LogLevel, LogFormat string
	// Secret signs termination events; the attributor has the same.
	Secret identity.Secret
	// MaxRootAge is how far back the journal is read for the totals of executions that are still running.
	MaxRootAge time.Duration
	// MaxExecutions bounds the executions in memory, all partitions of this process together.
	MaxExecutions int
	// Session is after how long without a heartbeat the partitions go to another copy.
	Session time.Duration
}

// Define adds the breaker's flags to set; the returned Config is filled once set was loaded.
func Define(set *config.Set) *Config {
	c := &Config{}
	kafka := set.Address("kafka", "", "Kafka client URL, kafka://host:port")
	http := set.String("http", "127.0.0.1:8085", "host:port of health and metrics")
	level := set.String("log-level", "info", "debug, info, warn or error")
	format := set.String("log-format", "json", "json or text")
	secret := set.Secret("hmac-secret", "key that signs termination events, shared with the attributor, at least 32 bytes")
	age := set.Duration("max-root-age", 7*24*time.Hour, "how far back the journal is read after a restart: the age that admission lets an execution reach")
	executions := set.Int("max-executions", 1_000_000, "most executions held in memory, about 300 bytes each and 50 more for each parent agent")
	session := set.Duration("session", 15*time.Second, "after how long without a heartbeat the partitions go to another copy")
	set.Require("kafka", "http")
	set.Check(func() error {
		*c = Config{Kafka: *kafka, HTTP: *http, LogLevel: *level, LogFormat: *format, MaxRootAge: *age, MaxExecutions: *executions, Session: *session}
		var err error
		if c.Secret, err = identity.NewSecret([]byte(secret.Value())); err != nil {
			err = fmt.Errorf("-hmac-secret-file: %w", err)
		}
		return errors.Join(err, c.Validate())
	})
	return c
}

// maxSession keeps the reach of the id filter above session time-out + delivery time-out.
const maxSession = 5 * time.Minute

// Validate returns everything that is wrong, joined; Define has checked the secret.
func (c Config) Validate() error {
	var errs []error
	if c.Kafka != "" { // a missing one is told by Require
		if _, err := bus.ParseAddress(c.Kafka); err != nil {
			errs = append(errs, fmt.Errorf("-kafka: %w", err))
		}
	}
	if _, err := obs.NewLogger(io.Discard, c.LogLevel, c.LogFormat, ""); err != nil {
		errs = append(errs, err)
	}
	if c.MaxRootAge < time.Minute {
		errs = append(errs, errors.New("-max-root-age must be at least 1m"))
	}
	if c.MaxExecutions < 1 {
		errs = append(errs, errors.New("-max-executions must be above zero"))
	}
	if c.Session < 100*time.Millisecond || c.Session > maxSession {
		errs = append(errs, fmt.Errorf("-session must be 100ms to %s", maxSession))
	}
	return errors.Join(errs...)
}
