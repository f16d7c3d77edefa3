package httpbench

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	port, err := part.FreePort()
	if err != nil {
		return err
	}
	w.admission.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	_, w.admission.pid, err = w.run(ctx, w.cfg.Admission, "-kafka", w.kafka, "-redis", w.redis, "-postgres", w.postgres+"&pool_max_conns="+strconv.Itoa(poolSize), "-http", w.admission.address,
		"-log-level", "error",
		"-hmac-secret-file", filepath.Join(w.cfg.Dir, "hmac.key"), "-token-key-file", filepath.Join(w.cfg.Dir, "token.pem"))
	if err != nil {
		return err
	}
	return w.awaitReady(ctx)
}

// awaitReady asks admission until it is.
func (w *world) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admission.address+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("ask admission: %w", err)
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("admission is not ready after %s: %w", startWithin, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) startFloor(ctx context.Context) error {
	out, pid, err := w.run(ctx, w.cfg.Floor[0], append(w.cfg.Floor[1:], w.redis, w.postgres)...)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	w.floor = target{address: strings.TrimSpace(line), pid: pid}
	if err != nil {
		return fmt.Errorf("the floor says no address: %w", err)
	}
	return nil
}

// run starts a process that ends with the world, and returns its standard output and its id.
func (w *world) run(ctx context.Context, path string, args ...string) (io.Reader, int, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	w.stop = append(w.stop, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	return out, cmd.Process.Pid, nil
}
