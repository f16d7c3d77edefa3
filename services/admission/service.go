package admission

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/lifecycle"
	"github.com/weir-project/weir/pkg/obs"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/services/admission/decisions"
	"github.com/weir-project/weir/services/admission/epoch"
	"github.com/weir-project/weir/services/admission/holdcache"
)

// Deps is what enters at the edge. All fields but StoreClock are required.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	Random   io.Reader
	// StoreClock replaces Redis' own time, for tests under a logical clock; nil in production.
	StoreClock func() time.Time
}

const (
	// shutdownDeadline is below Kubernetes' 30 s.
	shutdownDeadline = 20 * time.Second
	// requestGrace is what requests in flight get: two stores' deadlines and some.
	requestGrace = 5 * time.Second
	// flushWithin is what Kafka gets at the very end. Decisions had their last turn before, and who sent an event that is not
	// acknowledged by now was told to send it again: nobody waits for more while Kafka is away.
	flushWithin = time.Second
)

// Service is one replica of admission.
type Service struct {
	cfg      Config
	deps     Deps
	listener net.Listener
	// grpcListener is nil without gRPC, grpcTLS without TLS.
	grpcListener net.Listener
	grpcTLS      *tls.Config
	life         context.Context // of followers, whose apply has no context of its own

	conn     *bus.Conn
	producer *bus.Producer
	events   *bus.Producer // of the ingest
	waiting  inFlight
	counters *budgetstore.Store
	rows     *pgstore.Store

	catalogs *catalogs
	jwt      *identity.JWTVerifier // nil: no JWTs are taken
	jwks     *identity.JWKS
	id       string // of this process, drawn at the start
	holds    *holdcache.Cache
	epochs   *epoch.Watcher
	// revocations came while nobody was served.
	revocations revocations
	kills       *killSwitch
	decisions   *teller
	news        *decisions.Queue
	journal     *bus.Consumer
	windows     *bus.Consumer

	description []byte // the document of GET /openapi.json
	zones       zones
	deadlines   deadlines
	bodies      sync.Pool // of *[]byte, for what is asked and answered, each at most maxRoom
	observe     *obs.Server
	metrics     *metrics
	quiet       obs.Quiet
}

// New builds a replica and takes its port. Redis must answer now, because its eviction policy decides whether it may be
// used at all; Kafka and Postgres may come later. ctx bounds the start and, once it ends, everything.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	s := &Service{cfg: cfg, deps: deps, life: ctx, observe: obs.NewServer(deps.Registry), metrics: newMetrics(deps.Registry)}
	s.cfg.layout = cmp.Or(cfg.layout, budgetstore.Layout)
	if err := s.prepareMemory(); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	s.epochs = epoch.New(ctx, epoch.Config{Replica: s.id, Layout: s.cfg.layout, MaxLease: cfg.MaxLease, Deadline: cfg.Deadline, Secret: cfg.Secret},
		epoch.Deps{Log: deps.Log, Registry: deps.Registry, Now: deps.Now, Rows: s.rows, Counters: s.counters, Holds: s.holds, BeforeServing: s.revokeQueued})
	s.followCatalogs()
	s.news = decisions.New(deps.Log, deps.Registry, s.producer.Produce)
	s.decisions = &teller{queue: s.news.Add, sample: cfg.SampleAdmits}
	var err error
	if s.description, err = openAPI(s.table(), false); err == nil {
		s.jwt, err = s.newJWT()
	}
	if err == nil {
		s.journal, err = s.newJournalReader()
	}
	if err == nil {
		s.windows, err = s.newWindowReader()
	}
	if err == nil {
		err = s.listen(ctx)
	}
	if err == nil {
		err = s.listenGRPC(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("admission: %w", err), s.close(ctx))
	}
	s.observe.AddCheck("redis", s.counters.Ping)
	s.observe.AddCheck("postgres", s.rows.Ping)
	s.observe.AddCheck("epoch", s.sameEpoch)
	s.observe.AddCheck("kill-mirror", func(context.Context) error {
		if !s.kills.mirrorRead.Load() {
			return errors.New("not read yet")
		}
		return nil
	})
	s.observe.AddCheck("signing-key", func(context.Context) error {
		if _, ok := s.catalogs.signing.Get(cfg.TokenKey.ID); !ok {
			return errors.New("not published yet")
		}
		return nil
	})
	return s, nil
}

// prepareMemory is for what this replica knows for itself: who it is, and its holds.
func (s *Service) prepareMemory() error {
	id := make([]byte, 8)
	if _, err := io.ReadFull(s.deps.Random, id); err != nil {
		return fmt.Errorf("admission: an id for this process: %w", err)
	}
	s.id = hex.EncodeToString(id)
	s.holds = holdcache.New(s.cfg.RememberHolds, s.metrics.forgotten.Inc)
	s.deps.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_admission_holds_remembered",
		Help: "Open holds that this replica would show to a recovery of Redis."}, func() float64 { return float64(s.holds.Len()) }))
	return nil
}

func (s *Service) connect(ctx context.Context) (err error) {
	s.conn, err = bus.Connect(bus.Options{Address: s.cfg.Kafka, ClientID: "admission", Log: s.deps.Log, Metrics: s.deps.Registry, Now: s.deps.Now})
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if s.producer, err = s.conn.Producer(bus.ProducerConfig{}, topics.AdmissionDecisions, topics.ControlKeys); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if err = s.newEvents(); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if s.rows, err = pgstore.Open(ctx, s.cfg.Postgres); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	start, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.counters, err = budgetstore.Open(start, s.cfg.Redis, budgetstore.Options{MaxLease: s.cfg.MaxLease,
		ExecutionTTL: maxRootAge + s.cfg.TokenTTL + time.Hour, ConnectionLasts: s.cfg.connectionLasts, ScriptClock: s.deps.StoreClock, Log: s.deps.Log,
		LeftOut: func(n int64) { s.metrics.leftOut.Add(float64(n)) }})
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// Address is where the API listens, host:port.
func (s *Service) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends or a part fails. What runs, and in which order it stops: intake first, so that nothing new
// begins; then the readers and the reaper; then the decisions still queued are flushed; the stores close last.
func (s *Service) Run(ctx context.Context) error {
	g := lifecycle.New(s.deps.Log, shutdownDeadline)
	g.Add("http", lifecycle.Intake, func(ctx context.Context) error { return obs.Serve(ctx, s.listener, s.routes(), requestGrace) })
	if s.grpcListener != nil {
		g.Add("grpc", lifecycle.Intake, s.serveGRPC)
	}
	g.Add("journal", lifecycle.Consumers, s.epochs.UntilOutdated(s.journal.Run))
	g.Add("windows", lifecycle.Consumers, s.epochs.UntilOutdated(s.windows.Run))
	g.Add("reaper", lifecycle.Consumers, s.reap)
	g.Add("pruner", lifecycle.Consumers, s.prune)
	for _, f := range s.catalogs.followers {
		g.Add("follow "+f.Topic().Name(), lifecycle.Consumers, f.Run)
	}
	g.Add("epoch", lifecycle.Consumers, s.epochs.Watch)
	g.Add("recovery", lifecycle.Consumers, s.recoverLost)
	g.Add("show-holds", lifecycle.Consumers, s.showHolds)
	g.Add("kill-mirror", lifecycle.Consumers, s.watchKills)
	g.Add("signing-key", lifecycle.Consumers, s.publishKeys)
	g.Add("decisions", lifecycle.Producers, s.news.Run)
	g.Add("stores", lifecycle.Stores, func(ctx context.Context) error {
		<-ctx.Done()
		return s.close(ctx)
	})
	s.deps.Log.Info("serving", "address", s.Address(), "grpc", s.GRPCAddress(), "token_key", s.cfg.TokenKey.ID)
	return g.Run(ctx)
}

// close closes what was opened, Kafka first: its flush may take a moment.
func (s *Service) close(ctx context.Context) error {
	var errs []error
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	for _, p := range []*bus.Producer{s.events, s.producer} {
		if p != nil {
			p.Close(flush)
		}
	}
	if s.counters != nil {
		errs = append(errs, s.counters.Close())
	}
	if s.rows != nil {
		s.rows.Close()
	}
	return errors.Join(errs...)
}
