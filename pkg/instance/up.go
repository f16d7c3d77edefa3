package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-project/weir/pkg/embedded/install"
)

// readyWithin bounds how long the services may take to become ready: a start from a long journal included.
const readyWithin = 3 * time.Minute

// Config is what `weir up` was asked for.
type Config struct {
	Dir Dir
	// Bin holds the five service programs.
	Bin string
	// Self is this program, to run embedded parts as its children.
	Self string
	// Replicas by program; 1 where it says nothing.
	Replicas map[string]int
	// ApacheKafka runs Apache Kafka instead of kfake.
	ApacheKafka bool
	// External are addresses of the user's own parts by name: kafka, redis, postgres, clickhouse.
	External map[string]string
	// Say tells a person what happens now.
	Say func(format string, args ...any)
	// Reporter is told of each download before it starts.
	Reporter install.Reporter
}

// ErrLost says that a part's data are gone while another part remembers them.
var ErrLost = errors.New("data lost")

// Up starts what is not running, and returns when everything is ready. It is idempotent: what runs is left alone.
// On an error what it started stays up and is remembered, so that `weir down` ends it.
func Up(ctx context.Context, c Config) (State, error) {
	unlock, err := c.Dir.Lock()
	if err != nil {
		return State{}, err
	}
	defer unlock()
	if err := c.checkPrograms(); err != nil {
		return State{}, err
	}
	s, err := c.Dir.Load()
	if err != nil && !errors.Is(err, ErrNone) {
		return State{}, err
	}
	if err := c.Dir.ensureSecrets(); err != nil {
		return s, err
	}
	if err := c.upParts(ctx, &s); err != nil {
		return s, err
	}
	c.Say("topics, tables and migrations")
	if err := c.initialise(ctx, s); err != nil {
		return s, err
	}
	if err := c.upServices(&s); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	last := -1
	err = waitReady(ctx, s.Services, func(ready, of int) {
		if ready != last {
			c.Say("services ready: %d of %d", ready, of)
			last = ready
		}
	})
	return s, err
}

// checkPrograms finds a missing build before anything is started.
func (c Config) checkPrograms() error {
	known := map[string]bool{}
	for _, program := range Programs() {
		known[program] = true
		if _, err := os.Stat(filepath.Join(c.Bin, program)); err != nil {
			return fmt.Errorf("program %s is not beside weir (run `make build`): %w", program, err)
		}
	}
	for program, n := range c.Replicas {
		if !known[program] || n < 1 || n > 20 {
			return fmt.Errorf("replicas %s=%d: a service's name and 1 to 20", program, n)
		}
	}
	return nil
}

// upServices starts the copies that do not run, on the ports they had before.
func (c Config) upServices(s *State) error {
	before := s.Services
	s.Services = nil
	taken := map[int]bool{}
	for i, program := range Programs() {
		replicas, base := max(1, c.Replicas[program]), PortService+10*i
		if program == "admission" {
			base = PortAdmission
		}
		for n := 1; n <= replicas; n++ {
			name := program
			if replicas > 1 {
				name = fmt.Sprintf("%s-%d", program, n)
			}
			if old, ok := find(before, name); ok && old.Alive() {
				s.Services = append(s.Services, old)
				continue
			}
			port, err := freePort(base+n-1, taken)
			if err != nil {
				return err
			}
			if err := c.Dir.startService(s, c.Bin, program, name, port); err != nil {
				return err
			}
			if err := c.Dir.Save(*s); err != nil {
				return err
			}
		}
	}
	return c.retire(before, s)
}

// retire stops copies that the new number of replicas no longer names.
func (c Config) retire(before []Service, s *State) error {
	for _, old := range before {
		if _, still := find(s.Services, old.Name); !still {
			if err := old.Stop(0); err != nil {
				return err
			}
		}
	}
	return c.Dir.Save(*s)
}

func find(services []Service, name string) (Service, bool) {
	for _, v := range services {
		if v.Name == name {
			return v, true
		}
	}
	return Service{}, false
}

// Down stops the services, then the parts, and keeps all data. Everything is asked to end at once within its group,
// so that one hung process costs its own grace and no more.
func (d Dir) Down(say func(format string, args ...any)) error {
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	s, err := d.Load()
	if err != nil {
		return err
	}
	services, parts := []stopper{}, []stopper{}
	for _, v := range s.Services {
		services = append(services, v.Part.Stop)
	}
	for _, p := range s.Parts {
		if p.Ours() {
			parts = append(parts, p.Part.Stop)
		}
	}
	say("stopping %d services", len(services))
	serviceErr := stopAll(services, serviceGrace)
	say("stopping %d parts", len(parts))
	return errors.Join(serviceErr, stopAll(parts, partGrace))
}

// A hung service and a hung part together end within 15 s (design.md, section 12).
const (
	serviceGrace = 6 * time.Second
	partGrace    = 5 * time.Second
)

type stopper func(grace time.Duration) error

func stopAll(all []stopper, grace time.Duration) error {
	errs := make(chan error, len(all))
	for _, stop := range all {
		go func() { errs <- stop(grace) }()
	}
	var joined error
	for range all {
		joined = errors.Join(joined, <-errs)
	}
	return joined
}
