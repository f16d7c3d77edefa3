package service

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/obs"
)

// Settings are what every service is told. A service's own configuration embeds them.
type Settings struct {
	// Kafka is a client URL, see bus.ParseAddress.
	Kafka string
	// HTTP is host:port of health and metrics.
	HTTP string
	// LogLevel is debug, info, warn or error; LogFormat json or text.
	LogLevel, LogFormat string
}

// Define adds their flags to set; http is the default of that one. The returned Settings are filled before the checks run
// that are added later.
func Define(set *config.Set, http string) *Settings {
	s := &Settings{}
	kafka := set.Address("kafka", "", "Kafka client URL, kafka://host:port")
	listen := set.String("http", http, "host:port of health and metrics")
	level := set.String("log-level", "info", "debug, info, warn or error")
	format := set.String("log-format", "json", "json or text")
	set.Require("kafka", "http")
	set.Check(func() error {
		*s = Settings{Kafka: *kafka, HTTP: *listen, LogLevel: *level, LogFormat: *format}
		return nil
	})
	return s
}

// Validate returns everything that is wrong, joined.
func (s Settings) Validate() error {
	var errs []error
	if s.Kafka != "" { // a missing one is told by Require
		if _, err := bus.ParseAddress(s.Kafka); err != nil {
			errs = append(errs, fmt.Errorf("-kafka: %w", err))
		}
	}
	_, err := obs.NewLogger(io.Discard, s.LogLevel, s.LogFormat, "")
	return errors.Join(append(errs, err)...)
}

// MaxSession bounds the session time-out of whoever writes the journal or reads it: pkg/journal remembers ids for longer.
const MaxSession = 5 * time.Minute

// DefineSession adds the flag of a service that consumes: after how long without a heartbeat its partitions go to another copy.
func DefineSession(set *config.Set) *time.Duration {
	return set.Duration("session", 15*time.Second, "after how long without a heartbeat the partitions go to another copy")
}

// CheckSession says what is wrong with it.
func CheckSession(session time.Duration) error {
	if session < 100*time.Millisecond || session > MaxSession {
		return fmt.Errorf("-session must be 100ms to %s", MaxSession)
	}
	return nil
}

// settings is how Main finds them in a configuration that embeds them.
func (s Settings) settings() Settings { return s }
