package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/pkg/config"
	"github.com/weir-project/weir/pkg/embedded/clickhouse"
	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/kafka"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/postgres"
	"github.com/weir-project/weir/pkg/embedded/redis"
)

// partNames are the four parts in the order of `weir status`.
func partNames() []string { return []string{"kafka", "redis", "postgres", "clickhouse"} }

func defaultPort(name string) int {
	return map[string]int{"kafka": portKafka, "redis": portRedis, "postgres": portPostgres, "clickhouse": portClickHouse}[name]
}

// upParts keeps what runs, remembers what is the user's own, and starts the rest side by side.
func (c Config) upParts(ctx context.Context, s *State) error {
	if err := c.endStrays(*s); err != nil {
		return err
	}
	var missing []string
	for _, name := range partNames() {
		old, known := s.Part(name)
		switch own := c.External[name]; {
		case own != "" && known && old.Ours():
			return fmt.Errorf("%w: this folder has its own %s, with data; give another --dir, or leave --%s out", ErrMisuse, name, name)
		case own != "":
			s.setPart(Part{name, part.Part{Kind: KindExternal, Address: own}})
		case !known:
			missing = append(missing, name)
		case old.Ours() && !old.Runs():
			if err := c.Dir.checkData(name); err != nil {
				return err
			}
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return c.Dir.Save(*s)
	}
	bring, err := install.New("", c.Reporter)
	if err != nil {
		return err
	}
	starts := map[string]start{}
	taken := map[int]bool{}
	for _, name := range missing {
		old, _ := s.Part(name)
		port, err := c.Dir.freePort(lastPort(old.Address, defaultPort(name)), taken)
		if err != nil {
			return err
		}
		run, err := c.preparePart(ctx, bring, name, old.Kind)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		starts[name] = start{port, run}
	}
	return c.startAll(s, starts)
}

// checkData refuses a part whose data were removed while it was down. Started without them, it would look like a new one
// and the others would contradict it: a journal that begins again, a ledger with a hole. What Redis had, admission makes
// anew.
func (d Dir) checkData(name string) error {
	if name == "redis" {
		return nil
	}
	entries, err := os.ReadDir(d.Data(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data of %s: %w", name, err)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%w: the data of %s are gone from %s, while other parts of this instance remember what was there; "+
			"restore them, or begin afresh in another --dir", ErrLost, name, d.Data(name))
	}
	return nil
}

// start is how a part is started on a port; 0 picks one.
type start struct {
	port int
	run  func(port int) (*part.Part, error)
}

// startAll starts parts side by side, if what is known before can be written down. Each that came up is remembered at once,
// also where another did not; of one that did not, or could not be remembered and was ended, what was known before stays: its
// kind and port.
func (c Config) startAll(s *State, starts map[string]start) error {
	type result struct {
		name string
		p    *part.Part
		err  error
	}
	if err := c.Dir.Save(*s); err != nil {
		return err
	}
	results := make(chan result, len(starts))
	for name, start := range starts {
		go func() {
			p, err := start.run(start.port)
			if err != nil && portTaken(start.port) {
				// Somebody took it since we looked, e.g. another instance that starts at the same time.
				c.Say("%s: port %d was taken meanwhile; trying another", name, start.port)
				p, err = start.run(0)
			}
			results <- result{name, p, err}
		}()
	}
	c.Say("starting %s", strings.Join(slices.Sorted(maps.Keys(starts)), ", "))
	var err error
	for range starts {
		r := <-results
		if r.err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, r.err))
			continue
		}
		with := *s
		with.setPart(Part{r.name, *r.p})
		if failed := c.Dir.saveStarted(with, *r.p); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, failed))
			continue
		}
		*s = with
		c.Say("%s runs at %s", r.name, config.MaskURL(r.p.Address))
	}
	return err
}

// apache reports whether Kafka is to be Apache's: as asked for, or as it was before on this folder, since the two
// cannot read each other's data.
func (c Config) apache(oldKind string) bool {
	return oldKind == part.KindApacheKafka || oldKind == "" && c.ApacheKafka
}

// preparePart brings what a part lacks, one after the other so that a person sees one download at a time, and returns
// what starts it. A part that was prepared but never started leaves nothing behind.
func (c Config) preparePart(ctx context.Context, bring *install.Installer, name, oldKind string) (func(port int) (*part.Part, error), error) {
	at := func(port int) part.Config {
		return part.Config{Dir: c.Dir.Data(name), Port: port, LogFile: c.Dir.Log(name)}
	}
	self := []string{c.Self, "part"}
	switch name {
	case "kafka":
		if c.apache(oldKind) {
			return c.prepareApache(ctx, bring, at)
		}
		return func(port int) (*part.Part, error) {
			return kafka.Start(ctx, kafka.Config{Config: at(port), Self: self})
		}, nil
	case "redis":
		binary, err := bring.Redis(ctx)
		return func(port int) (*part.Part, error) {
			return redis.Start(ctx, redis.Config{Config: at(port), Binary: binary})
		}, err
	case "postgres":
		bin, err := bring.Postgres(ctx, postgres.DataMajor(c.Dir.Data(name)))
		return func(port int) (*part.Part, error) {
			return postgres.Start(ctx, postgres.Config{Config: at(port), BinDir: bin})
		}, err
	default:
		engine, err := bring.ClickHouse(ctx)
		return func(port int) (*part.Part, error) {
			return clickhouse.Start(ctx, clickhouse.Config{
				Config: at(port), Self: self, Library: engine.Library, Binary: engine.Binary,
				DefaultPasswordFile: c.Dir.Secret(secretDefault), FinancePasswordFile: c.Dir.Secret(secretFinance),
			})
		}, err
	}
}

func (c Config) prepareApache(ctx context.Context, bring *install.Installer, at func(port int) part.Config) (func(port int) (*part.Part, error), error) {
	java, err := bring.Java(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := bring.Kafka(ctx)
	return func(port int) (*part.Part, error) {
		nodes, err := kafka.StartApache(ctx, kafka.ApacheConfig{Config: at(port), Java: java, Jars: jars})
		if err != nil {
			return nil, err
		}
		return nodes[0], nil
	}, err
}

// lastPort is the port that a process had before, so that addresses survive a restart.
func lastPort(address string, otherwise int) int {
	if u, err := url.Parse(address); err == nil {
		if port, err := strconv.Atoi(u.Port()); err == nil {
			return port
		}
	}
	return otherwise
}
