package breaker

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/service"
)

// Config is the breaker's configuration. Define fills it from flags and environment.
type Config struct {
	service.Settings
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
	settings := service.Define(set, "127.0.0.1:8085")
	secret := set.Secret("hmac-secret", "key that signs termination events, shared with the attributor, at least 32 bytes")
	age := set.Duration("max-root-age", 7*24*time.Hour, "how far back the journal is read after a restart: the age that admission lets an execution reach")
	executions := set.Int("max-executions", 1_000_000, "most executions held in memory, about 300 bytes each and 50 more for each parent agent")
	session := service.DefineSession(set)
	set.Check(func() error {
		*c = Config{Settings: *settings, MaxRootAge: *age, MaxExecutions: *executions, Session: *session}
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
	if c.MaxRootAge < time.Minute {
		errs = append(errs, errors.New("-max-root-age must be at least 1m"))
	}
	if c.MaxExecutions < 1 {
		errs = append(errs, errors.New("-max-executions must be above zero"))
	}
	return errors.Join(append(errs, service.CheckSession(c.Session))...)
}
