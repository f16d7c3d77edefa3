package instance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/weir-project/weir/pkg/embedded/clickhouse"
	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/kafka"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/postgres"
	"github.com/weir-project/weir/pkg/embedded/redis"
)

// PartNames are the four parts in the order of `weir status`.
func PartNames() []string { return []string{"kafka", "redis", "postgres", "clickhouse"} }

func defaultPort(name string) int {
	return map[string]int{"kafka": PortKafka, "redis": PortRedis, "postgres": PortPostgres, "clickhouse": PortClickHouse}[name]
}

// upParts keeps what runs, remembers what is the user's own, and starts the rest side by side.
func (c Config) upParts(ctx context.Context, s *State) error {
	before := *s
	s.Parts = nil
	var missing []string
	for _, name := range PartNames() {
		old, known := before.Part(name)
		switch own := c.External[name]; {
		case own != "":
			s.Parts = append(s.Parts, Part{name, part.Part{Kind: KindExternal, Address: own}})
		case known && (!old.Ours() || old.Alive()):
			s.Parts = append(s.Parts, old)
		default:
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
	starts := map[string]func() (*part.Part, error){}
	taken := map[int]bool{}
	for _, name := range missing {
		old, _ := before.Part(name)
		port, err := freePort(lastPort(old, defaultPort(name)), taken)
		if err != nil {
			return err
		}
		if starts[name], err = c.preparePart(ctx, bring, name, old.Kind, port); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	err = c.startAll(s, starts)
	order(s.Parts)
	if saveErr := c.Dir.Save(*s); saveErr != nil {
		return saveErr
	}
	return err
}

// startAll starts parts side by side; what came up is in s even where another did not.
func (c Config) startAll(s *State, starts map[string]func() (*part.Part, error)) error {
	type result struct {
		name string
		p    *part.Part
		err  error
	}
	results := make(chan result, len(starts))
	for name, start := range starts {
		c.Say("starting %s", name)
		go func() {
			p, err := start()
			results <- result{name, p, err}
		}()
	}
	var err error
	for range starts {
		r := <-results
		if r.err != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, r.err))
			continue
		}
		s.Parts = append(s.Parts, Part{r.name, *r.p})
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
func (c Config) preparePart(ctx context.Context, bring *install.Installer, name, oldKind string, port int) (func() (*part.Part, error), error) {
	cfg := part.Config{Dir: c.Dir.Data(name), Port: port, LogFile: c.Dir.Log(name)}
	self := []string{c.Self, "part"}
	switch name {
	case "kafka":
		if c.apache(oldKind) {
			return c.prepareApache(ctx, bring, cfg)
		}
		return func() (*part.Part, error) { return kafka.Start(ctx, kafka.Config{Config: cfg, Self: self}) }, nil
	case "redis":
		binary, err := bring.Redis(ctx)
		return func() (*part.Part, error) { return redis.Start(ctx, redis.Config{Config: cfg, Binary: binary}) }, err
	case "postgres":
		bin, err := bring.Postgres(ctx, postgres.DataMajor(cfg.Dir))
		return func() (*part.Part, error) { return postgres.Start(ctx, postgres.Config{Config: cfg, BinDir: bin}) }, err
	default:
		engine, err := bring.ClickHouse(ctx)
		return func() (*part.Part, error) {
			return clickhouse.Start(ctx, clickhouse.Config{
				Config: cfg, Self: self, Library: engine.Library, Binary: engine.Binary,
				DefaultPasswordFile: c.Dir.Secret(SecretDefault), FinancePasswordFile: c.Dir.Secret(SecretFinance),
			})
		}, err
	}
}

func (c Config) prepareApache(ctx context.Context, bring *install.Installer, cfg part.Config) (func() (*part.Part, error), error) {
	java, err := bring.Java(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := bring.Kafka(ctx)
	return func() (*part.Part, error) {
		nodes, err := kafka.StartApache(ctx, kafka.ApacheConfig{Config: cfg, Java: java, Jars: jars})
		if err != nil {
			return nil, err
		}
		return nodes[0], nil
	}, err
}

// order sorts parts as `weir status` lists them.
func order(parts []Part) {
	rank := map[string]int{}
	for i, name := range PartNames() {
		rank[name] = i
	}
	for i := range parts {
		for j := i; j > 0 && rank[parts[j].Name] < rank[parts[j-1].Name]; j-- {
			parts[j], parts[j-1] = parts[j-1], parts[j]
		}
	}
}

// lastPort is the port that a part had before, so that addresses survive a restart.
func lastPort(p Part, otherwise int) int {
	if u, err := url.Parse(p.Address); err == nil {
		if port, err := strconv.Atoi(u.Port()); err == nil {
			return port
		}
	}
	return otherwise
}
