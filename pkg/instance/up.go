package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/part"
)

// MaxReplicas bounds the copies of one service on one machine.
const MaxReplicas = 20

const (
	// readyWithin bounds how long the services may take to become ready: a start from a long journal included.
	readyWithin = 3 * time.Minute
	// recoverWithin is the same while the budget store is recovered: admission waits for the longest lease first.
	recoverWithin = 6 * time.Minute
	// sayEvery is how often a person who waits for a recovery is told how it goes.
	sayEvery = 10 * time.Second
)

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

// ErrMisuse says that what was asked for cannot be meant.
var ErrMisuse = errors.New("used wrongly")

// ErrLost says that a part's data are gone while another part remembers them.
var ErrLost = errors.New("data lost")

// Up starts what is not running, and returns when everything is ready. It is idempotent: what runs is left alone, except
// services of another build, or whose parts have moved, which are restarted: one program after the other, all copies of it at
// once. On an error what it started stays up and is remembered, so that `weir down` ends it; what cannot be
// remembered is ended.
func Up(ctx context.Context, c Config) (State, error) {
	if err := c.checkPrograms(); err != nil { // before the lock, which makes the folder
		return State{}, err
	}
	if err := c.checkAddresses(); err != nil {
		return State{}, err
	}
	if err := raiseFiles(c.Say); err != nil {
		return State{}, err
	}
	unlock, err := c.Dir.Lock()
	if err != nil {
		return State{}, err
	}
	defer unlock()
	part.Tidy(needed)
	s, err := c.Dir.Load()
	if err != nil && !errors.Is(err, ErrNone) {
		return State{}, err
	}
	if err := c.Dir.ensureSecrets(); err != nil {
		return s, err
	}
	if err := c.runParts(ctx, &s); err != nil {
		return s, err
	}
	return s, c.runServices(ctx, &s)
}

// maxTries is how often what ends on the way is started, at most.
const maxTries = 3

// runParts starts the parts and brings them up to date. One that was seen to run may have been about to end, killed a moment ago.
func (c Config) runParts(ctx context.Context, s *State) error {
	for tries := 1; ; tries++ {
		if err := c.upParts(ctx, s); err != nil {
			return err
		}
		c.oldParts(*s)
		c.Say("topics, tables and migrations")
		err := c.initialise(ctx, *s)
		gone := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Ours() && !p.Runs() })
		if err == nil || gone < 0 || tries == maxTries {
			return err
		}
		c.Say("%s ended meanwhile; starting it again", s.Parts[gone].Name)
	}
}

// runServices starts the services and waits until all are ready. The same may happen to one of them.
func (c Config) runServices(ctx context.Context, s *State) error {
	progress := c.progress()
	ran := map[int]bool{}
	for _, v := range s.Services {
		ran[v.PID] = true
	}
	for tries := 1; ; tries++ {
		if err := c.upServices(s); err != nil {
			return err
		}
		err := waitReady(ctx, s.Services, progress)
		var e ended
		if tries == maxTries || !errors.As(err, &e) {
			return err
		}
		switch {
		case ran[e.PID]:
			c.Say("%s ended meanwhile; starting it again", e.Name)
		case e.portsTaken():
			c.Say("%s: its port was taken meanwhile; trying another", e.Name)
		default:
			return err
		}
	}
}

// progress tells a person how many services are ready, when that changes, and how a recovery goes.
func (c Config) progress() func(ready, of int, reasons []error) {
	last := -1
	var said time.Time
	return func(ready, of int, reasons []error) {
		if ready != last {
			c.Say("services ready: %d of %d", ready, of)
			last = ready
		}
		if why := recovering(reasons); why != nil && time.Since(said) > sayEvery {
			c.Say("the budget store was lost, not shut down cleanly, or laid out by another build, and is being recovered: %v", why)
			said = time.Now()
		}
	}
}

// recovering finds the service that waits for a recovery of the budget store; nil if none does.
func recovering(reasons []error) error {
	for _, err := range reasons {
		why, ok := errors.AsType[unready](err)
		if ok && slices.Contains(slices.Collect(maps.Values(why.codes)), string(admit.StoreRecovering)) {
			return err
		}
	}
	return nil
}

// checkPrograms finds a missing build before anything is started.
func (c Config) checkPrograms() error {
	known := map[string]bool{}
	for _, program := range Programs() {
		known[program] = true
		if _, err := os.Stat(filepath.Join(c.Bin, program)); err != nil {
			return fmt.Errorf("%w: program %s is not in %s (run `make build`)", ErrMisuse, program, c.Bin)
		}
	}
	for program, n := range c.Replicas {
		if !known[program] || n < 1 || n > MaxReplicas {
			return fmt.Errorf("%w: replicas %s=%d: a service's name and 1 to %d", ErrMisuse, program, n, MaxReplicas)
		}
	}
	return nil
}

// checkAddresses finds an address that cannot be one before anything is started.
func (c Config) checkAddresses() error {
	for name, parse := range map[string]func(string) error{
		"kafka":    func(s string) error { _, err := bus.ParseAddress(s); return err },
		"postgres": func(s string) error { _, err := pgx.ParseConfig(s); return err },
		"redis": func(s string) error {
			if !strings.HasPrefix(s, "redis") || !strings.Contains(s, "://") {
				return errors.New("redis address: want redis://host:port or rediss://host:port")
			}
			return nil
		},
		"clickhouse": func(s string) error {
			client, err := clickhouse.Open(s) // it does not connect
			if err != nil {
				return err
			}
			return client.Close()
		},
	} {
		if address := c.External[name]; address != "" {
			if err := parse(address); err != nil {
				return fmt.Errorf("%w: --%s: %w", ErrMisuse, name, err)
			}
		}
	}
	return nil
}

// Down stops the services, seals the budget store, then stops the parts, and keeps all data. Everything is asked to end at
// once within its group, so that one hung process costs its own grace and no more.
func (d Dir) Down(say func(format string, args ...any)) error {
	if _, err := d.Load(); err != nil { // before the lock, which would make the folder
		return err
	}
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	sealBy := time.Now().Add(downWithin - partGrace - endWithin)
	s, err := d.Load()
	if err != nil {
		return err
	}
	services, parts := d.strays(s, say)
	for _, v := range s.Services {
		if v.Alive() {
			services = append(services, v.Part.Stop)
		}
	}
	for _, p := range s.Parts {
		if p.Ours() && p.Alive() {
			parts = append(parts, p.Part.Stop)
		}
	}
	say("stopping %d services of the instance in %s", len(services), d)
	serviceErr := stopAll(services, serviceGrace)
	if redis, ok := s.Part("redis"); ok && (!redis.Ours() || redis.Alive()) {
		if err := seal(sealBy, s); err != nil {
			say("the budget store is not sealed, so the next start recovers it: %v", err)
		}
	}
	say("stopping %d parts", len(parts))
	err = errors.Join(serviceErr, stopAll(parts, partGrace))
	part.Tidy(needed) // what is down leaves its ports to others
	return err
}

// A hung service and a hung part together end within downWithin.
const (
	downWithin   = 15 * time.Second
	serviceGrace = 6 * time.Second
	partGrace    = 5 * time.Second
	// endWithin is how soon the last process is gone once it was killed.
	endWithin = time.Second
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
