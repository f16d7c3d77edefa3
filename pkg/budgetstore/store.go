package budgetstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// Errors of the store. Admission answers budget_store_recovering to ErrLost
// and ErrNotReady, budget_store_unavailable to the others: never a yes.
var (
	// ErrUnavailable: no answer, or not one of ours. The cause is wrapped too.
	ErrUnavailable = errors.New("budget store unavailable")
	// ErrLost: the tenant's counters are not there.
	ErrLost = errors.New("budget store has no counters for the tenant")
	// ErrNotReady: the counters are there, but their base is not loaded.
	ErrNotReady = errors.New("budget store: the tenant's counters are not ready")
	// ErrEpoch: the counters are of another epoch.
	ErrEpoch = errors.New("budget store is of another epoch")
	// ErrClockSkew: the store's clock and the caller's differ by more than admit.MaxSkew.
	ErrClockSkew = errors.New("budget store's clock and the caller's differ")
	// ErrFull: 65,536 holds of the tenant wait for the reaper. Nothing is admitted until it catches up.
	ErrFull = errors.New("budget store: too many holds wait for the reaper")
	// ErrNoHold: no such reservation is held.
	ErrNoHold = errors.New("budget store has no such hold")
	// ErrNoExecution: the store does not know the root execution.
	ErrNoExecution = errors.New("budget store does not know the execution")
	// ErrExecutions: as many executions of the tenant are known as may be.
	ErrExecutions = errors.New("budget store: too many executions")
	// ErrEviction: Redis may drop keys when its memory is full.
	ErrEviction = errors.New("redis must run with maxmemory-policy noeviction")
)

// Bounds of what one call may bring.
const (
	MaxContext = 2048 // bytes of Request.Context
	maxID      = 128  // bytes of a tenant, reservation or execution id
)

// MaxExecutions bounds how many root executions of a tenant are known because they were started, for Options.ExecutionTTL
// each, and how many more because usage that never asked names them. lua/executions.lua has it too.
const MaxExecutions = 65536

// Options of a Store; zero values mean the defaults.
type Options struct {
	// MaxLease is how long an ended reservation id is remembered. Default 2 min.
	MaxLease time.Duration
	// ExecutionTTL is how long a root execution is kept from its start: more
	// than its maximum age plus the life of a token. Default 48 h.
	ExecutionTTL time.Duration
	// ConnectionLasts is how long a connection is used, give or take a quarter, so that an address which leads elsewhere by
	// now (a name that was changed, a master that was moved) is followed although the old server still answers; those that
	// watch go in half of that. Default 20 s; the URL's conn_max_lifetime goes before.
	ConnectionLasts time.Duration
	// LeftOut is told how many totals of executions were left out, at MaxExecutions. nil drops it.
	LeftOut func(n int64)
	// ScriptClock replaces Redis' TIME inside the scripts. For tests and
	// simulations only; nil in production.
	ScriptClock func() time.Time
	// Log gets, at debug, what the Redis client says by itself: while Redis is away that is a line for each attempt to
	// connect, and every call fails with the same cause. nil drops it. The client has one log a process, that of the latest Open.
	Log *slog.Logger
}

// Store is a connection pool to one Redis. Concurrent calls share round trips. Safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	probe   redis.UniversalClient // two connections that the guard lets through
	guard   *guard
	shared  *streams // for scripts: concurrent calls share round trips
	scripts scripts
	opts    Options
	url     string
}

// Open connects and checks that Redis answers and never evicts keys. url is
// redis:// or rediss:// for one server; redis+cluster:// (more nodes by
// ?addr=host:port) and redis+sentinel:// (?master_name=…) with their rediss+
// forms for the others. ?password_file=F keeps the password out of the URL.
// docs/parts.md has an example of each.
// Errors do not contain the password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	if opts.MaxLease == 0 {
		opts.MaxLease = 2 * time.Minute
	}
	if opts.ExecutionTTL == 0 {
		opts.ExecutionTTL = 48 * time.Hour
	}
	if opts.ConnectionLasts == 0 {
		opts.ConnectionLasts = 20 * time.Second
	}
	loaded, err := loadScripts()
	if err != nil {
		return nil, err
	}
	if opts.LeftOut == nil {
		opts.LeftOut = func(int64) {}
	}
	redis.SetLogger(clientLog{cmp.Or(opts.Log, slog.New(slog.DiscardHandler))})
	s, err := open(url, opts, loaded, newGuard())
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Afresh is the same store by new connections, its address resolved anew: what it says is not an old connection's. The
// caller closes it.
func (s *Store) Afresh() (*Store, error) { return open(s.url, s.opts, s.scripts, s.guard) }

func open(url string, opts Options, loaded scripts, watch *guard) (*Store, error) {
	client, err := connect(url, watch.check, 0, opts.ConnectionLasts)
	if err != nil {
		return nil, err
	}
	probe, err := connect(url, nil, 2, opts.ConnectionLasts/2)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s := &Store{client: client, probe: probe, guard: watch, scripts: loaded, opts: opts, url: url}
	s.shared = newStreams(client, s.at)
	return s, nil
}

// readTimeout is when a connection that does not answer is given up, unless
// the URL says otherwise: calls share connections, so a dead one must not hold
// them for longer than a call's own deadline.
const readTimeout = time.Second

// poolOf is the size of a pool: ours, or the URL's pool_size where that is smaller.
func poolOf(ours, urls int) int {
	if ours == 0 || urls > 0 && urls < ours {
		return urls
	}
	return ours
}

// connect parses the URL forms of Open. A context's deadline bounds every
// call; go-redis may retry within it, because the scripts are idempotent.
// hook sees every new connection; size bounds the pool (0: the URL alone does, or the client); lasts bounds the life of a connection.
func connect(url string, hook func(context.Context, *redis.Conn) error, size int, lasts time.Duration) (redis.UniversalClient, error) {
	url, err := passwordFile(url)
	if err != nil {
		return nil, err
	}
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	scheme, rest, _ := strings.Cut(url, "://")
	kind := strings.TrimPrefix(strings.TrimPrefix(scheme, "rediss"), "redis")
	url = strings.TrimSuffix(scheme, kind) + "://" + rest
	switch kind {
	case "":
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("redis address: %w", err)
		}
		o.ContextTimeoutEnabled, o.MaintNotificationsConfig = true, quiet
		o.ReadTimeout, o.OnConnect, o.PoolSize = cmp.Or(o.ReadTimeout, readTimeout), hook, poolOf(size, o.PoolSize)
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = cmp.Or(o.ConnMaxLifetime, lasts), cmp.Or(o.ConnMaxLifetimeJitter, lasts/4)
		return redis.NewClient(o), nil
	case "+cluster":
		o, err := redis.ParseClusterURL(url)
		if err != nil {
			return nil, fmt.Errorf("redis cluster address: %w", err)
		}
		o.ContextTimeoutEnabled, o.MaintNotificationsConfig = true, quiet
		o.ReadTimeout, o.OnConnect, o.PoolSize = cmp.Or(o.ReadTimeout, readTimeout), hook, poolOf(size, o.PoolSize)
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = cmp.Or(o.ConnMaxLifetime, lasts), cmp.Or(o.ConnMaxLifetimeJitter, lasts/4)
		return redis.NewClusterClient(o), nil
	case "+sentinel":
		o, err := bySentinel(url)
		if err != nil {
			return nil, fmt.Errorf("redis sentinel address: %w", err)
		}
		o.ContextTimeoutEnabled, o.ReadTimeout = true, cmp.Or(o.ReadTimeout, readTimeout)
		o.OnConnect, o.PoolSize = hook, poolOf(size, o.PoolSize)
		o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = cmp.Or(o.ConnMaxLifetime, lasts), cmp.Or(o.ConnMaxLifetimeJitter, lasts/4)
		return redis.NewFailoverClient(o), nil
	default:
		return nil, fmt.Errorf("redis address: scheme %q is not redis, rediss, or one of them with +cluster or +sentinel", scheme)
	}
}

// check asks for the eviction policy by INFO, which least-privilege users may call where CONFIG is barred.
func (s *Store) check(ctx context.Context) error {
	info, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("%w: info: %w", ErrUnavailable, err)
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
		return fmt.Errorf("%w, not %s", ErrEviction, policy)
	}
	return nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.shared.close()
	return errors.Join(s.client.Close(), s.probe.Close())
}

// Ping asks Redis for a sign of life. The error wraps ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: ping: %w", ErrUnavailable, err)
	}
	return nil
}

// key names one key of a tenant.
func key(t Tenant, name string) string { return "w:{" + t.ID + "}:" + name }

// nameable reports whether a name of the journal's is one that a reservation may bring. Usage that never asked may have
// any name, and one that is not ours must hold nobody up.
func nameable(id string) bool { return checkID("", id) == nil }

// checkID refuses ids that could leave their key or their hash tag.
func checkID(what, id string) error {
	if id == "" || len(id) > maxID || strings.ContainsAny(id, "{}") {
		return fmt.Errorf("%w: %s %q", admit.ErrInvalid, what, id)
	}
	return nil
}

// at is the test clock's argument: empty in production.
func (s *Store) at() string {
	if s.opts.ScriptClock == nil {
		return ""
	}
	return fmt.Sprintf("%d", s.opts.ScriptClock().UnixMicro())
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
