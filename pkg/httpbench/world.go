package httpbench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/embedded/install"
	"github.com/weir-project/weir/pkg/embedded/kafka"
	"github.com/weir-project/weir/pkg/embedded/part"
	"github.com/weir-project/weir/pkg/embedded/postgres"
	embeddedredis "github.com/weir-project/weir/pkg/embedded/redis"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/instance"
)

// startWithin bounds the start of each process.
const startWithin = 30 * time.Second

// world is what runs: the parts, admission and the floor, and what the clients need to ask them.
type world struct {
	cfg  Config
	stop []func() // in the order in which they were started

	redis, kafka, postgres string
	pool                   *pgxpool.Pool
	admission, floor       target
	key                    string
	tokens                 []string // by client
	slots                  int      // makes ids new
}

func newWorld(ctx context.Context, cfg Config) (w *world, err error) {
	w = &world{cfg: cfg, redis: cfg.Redis}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for _, step := range []func(context.Context) error{
		w.startRedis, w.startPostgres, w.startKafka, w.publish, w.startAdmission, w.startFloor, w.startExecutions,
	} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	w.pool, err = openPool(ctx, w.postgres)
	return w, err
}

func (w *world) close() {
	if w.pool != nil {
		w.pool.Close()
	}
	for i := len(w.stop) - 1; i >= 0; i-- {
		w.stop[i]()
	}
}

func (w *world) started(p *part.Part) {
	w.stop = append(w.stop, func() { _ = p.Stop(part.DefaultGrace) })
}

// folder is where a part lives.
func (w *world) folder(name string) part.Config {
	return part.Config{Dir: filepath.Join(w.cfg.Dir, name)}
}

func (w *world) startRedis(ctx context.Context) error {
	if w.redis == "" {
		installer, err := install.New("", nil)
		if err != nil {
			return err
		}
		binary, err := installer.Redis(ctx)
		if err != nil {
			return err
		}
		p, err := embeddedredis.Start(ctx, embeddedredis.Config{Config: w.folder("redis"), Binary: binary})
		if err != nil {
			return err
		}
		w.started(p)
		w.redis = p.Address
	}
	o, err := redis.ParseURL(w.redis)
	if err != nil {
		return fmt.Errorf("redis address: %w", err)
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	return errors.Join(client.ConfigSet(ctx, "appendonly", "no").Err(), client.FlushAll(ctx).Err())
}

func (w *world) startPostgres(ctx context.Context) error {
	installer, err := install.New("", nil)
	if err != nil {
		return err
	}
	bin, err := installer.Postgres(ctx, 0)
	if err != nil {
		return err
	}
	p, err := postgres.Start(ctx, postgres.Config{Config: w.folder("postgres"), BinDir: bin})
	if err != nil {
		return err
	}
	w.started(p)
	w.postgres = p.Address
	if err := instance.InitPostgres(ctx, w.postgres); err != nil {
		return err
	}
	return instance.InitEpoch(ctx, w.postgres, w.redis)
}

// startKafka runs in this process: admission waits for it in the background only.
func (w *world) startKafka(ctx context.Context) error {
	cluster, err := kafka.NewCluster(io.Discard)
	if err != nil {
		return err
	}
	w.stop = append(w.stop, cluster.Close)
	w.kafka = "kafka://" + strings.Join(cluster.ListenAddrs(), ",")
	return instance.InitKafka(ctx, w.kafka, 1)
}

// publish fills the catalogs.
func (w *world) publish(ctx context.Context) error {
	address, err := bus.ParseAddress(w.kafka)
	if err != nil {
		return err
	}
	conn, err := bus.Connect(bus.Options{Address: address, ClientID: "bench", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: w.cfg.Now})
	if err != nil {
		return err
	}
	key, err := identity.NewAPIKey(rand.Reader)
	if err != nil {
		return err
	}
	w.key = key.Text
	return publishCatalog(ctx, conn, key, w.cfg.Now())
}

func (w *world) startAdmission(ctx context.Context) error {
	token, err := identity.NewTokenKey(rand.Reader)
	if err != nil {
		return err
	}
	pem, err := token.PEM()
	if err != nil {
		return err
	}
	files := map[string][]byte{"hmac.key": []byte(rand.Text() + rand.Text()), "token.pem": pem}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.cfg.Dir, name), text, 0o600); err != nil {
			return fmt.Errorf("secret: %w", err)
		}
	}
	w.admission, err = w.spawn(ctx, "admission", w.cfg.Admission, func(address string) []string {
		return []string{"-kafka", w.kafka, "-redis", w.redis, "-postgres", w.postgres + "&pool_max_conns=" + strconv.Itoa(poolSize), "-http", address,
			"-log-level", "error",
			"-hmac-secret-file", filepath.Join(w.cfg.Dir, "hmac.key"), "-token-key-file", filepath.Join(w.cfg.Dir, "token.pem")}
	})
	return err
}

func (w *world) startFloor(ctx context.Context) (err error) {
	w.floor, err = w.spawn(ctx, "floor", w.cfg.Floor[0], func(address string) []string {
		return append(slices.Clone(w.cfg.Floor[1:]), w.redis, w.postgres, address)
	})
	return err
}

// spawn starts a server on a free port, as a process that ends with the world, and returns when its /readyz answers 200.
func (w *world) spawn(ctx context.Context, name, path string, args func(address string) []string) (target, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	port, err := part.FreePort()
	if err != nil {
		return target{}, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err := part.Spawn(part.Command{Kind: name, Address: "http://" + address, Path: path, Args: args(address), LogFile: filepath.Join(w.cfg.Dir, name+".log")})
	if err != nil {
		return target{}, err
	}
	if p, err = p.Started(ctx, instance.Service{Name: name, Part: *p}.Readiness); err != nil {
		return target{}, err
	}
	w.started(p)
	return target{address: address, pid: p.PID}, nil
}
