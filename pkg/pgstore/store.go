package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-project/weir/pkg/outbox"
)

// defaultMaxConns bounds the pool where the URL does not (pool_max_conns): Postgres groups commits best with a few
// dozen writers, and three replicas must fit its default of 100 connections.
const defaultMaxConns = 24

// atConnect: each statement sees what has committed before it, whatever the server's default, as EpochLock needs it; and
// the transaction of a process that stands still ends, for it holds EpochLock and so a recovery up. Plans are made once for
// a connection: Postgres would decide by its first five batches, and plan each again if those were small.
const atConnect = "SET default_transaction_isolation = 'read committed'; SET idle_in_transaction_session_timeout = '10s'; SET plan_cache_mode = force_generic_plan"

// Store is admission's Postgres. It is safe for concurrent use.
type Store struct {
	pool       *pgxpool.Pool
	group      group
	statements statements
	careful    atomic.Int64 // transactions that are still to expect ends of reservations that have ended
}

// Open makes a pool for a postgres:// URL. It does not dial: use Ping.
func Open(ctx context.Context, url string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: address: %w", err) // pgx keeps the password out of it
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultMaxConns
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, atConnect); err != nil {
			return err
		}
		_, err := outbox.KnowRows(ctx, conn, endType, outbox.EventType) // if they are not there: see Ping
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: pool: %w", err)
	}
	s := &Store{pool: pool, statements: newStatements()}
	s.group.write, s.group.slow, s.group.gathers = s.transact, slowTransaction, gatherTime
	return s, nil
}

// Close writes the changes that wait, waits for borrowed connections and closes all.
func (s *Store) Close() {
	s.group.close()
	s.pool.Close()
}

// Ping reports whether Postgres answers and has the tables and types.
func (s *Store) Ping(ctx context.Context) error {
	var there bool
	err := s.pool.QueryRow(ctx, `SELECT to_regclass('reservations') IS NOT NULL AND to_regclass('outbox') IS NOT NULL
		AND to_regtype($1) IS NOT NULL AND to_regtype($2) IS NOT NULL`, endType, outbox.EventType).Scan(&there)
	if err != nil {
		return fmt.Errorf("pgstore: ping: %w", err)
	}
	if !there {
		s.pool.Reset() // a connection looks for the types once
		return errors.New("pgstore: the tables are missing; run `weir init`")
	}
	return nil
}

// Epoch is the epoch of the Redis that holds the counters; false if none was ever made.
func (s *Store) Epoch(ctx context.Context) (int64, bool, error) {
	var epoch int64
	err := s.pool.QueryRow(ctx, "SELECT epoch FROM redis_epoch").Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("pgstore: read epoch: %w", err)
	}
	return epoch, true, nil
}

// InitEpoch stores an epoch (1 to 2^52-1), whose counters will be laid out so, unless there is one, and returns the one that
// holds.
func (s *Store) InitEpoch(ctx context.Context, epoch int64, layout int) (int64, error) {
	_, err := s.pool.Exec(ctx, "INSERT INTO redis_epoch (epoch, layout) VALUES ($1, $2) ON CONFLICT DO NOTHING", epoch, layout)
	if err != nil {
		return 0, fmt.Errorf("pgstore: store epoch: %w", err)
	}
	stored, ok, err := s.Epoch(ctx)
	if err == nil && !ok {
		err = errors.New("pgstore: the epoch that was stored is gone")
	}
	return stored, err
}

// TenantState says whether a tenant's counters must exist in Redis.
type TenantState int

const (
	// StateNone: nobody made the tenant's counters in this epoch.
	StateNone TenantState = iota
	// StateMaking: somebody began; the key may or may not exist, and nothing was admitted by it.
	StateMaking
	// StateReady: the key exists, or it was lost.
	StateReady
)

// TenantState reads the state of (tenant, epoch).
func (s *Store) TenantState(ctx context.Context, tenant string, epoch int64) (TenantState, error) {
	var ready bool
	err := s.pool.QueryRow(ctx, "SELECT ready FROM tenant_states WHERE tenant_id = $1 AND epoch = $2", tenant, epoch).Scan(&ready)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return StateNone, nil
	case err != nil:
		return StateNone, fmt.Errorf("pgstore: read state of tenant %s: %w", tenant, err)
	case ready:
		return StateReady, nil
	}
	return StateMaking, nil
}

// BeginTenant records that the tenant's counters are about to be made; it returns the state that holds then.
func (s *Store) BeginTenant(ctx context.Context, tenant string, epoch int64) (TenantState, error) {
	_, err := s.pool.Exec(ctx, "INSERT INTO tenant_states (tenant_id, epoch) VALUES ($1, $2) ON CONFLICT DO NOTHING", tenant, epoch)
	if err != nil {
		return StateNone, fmt.Errorf("pgstore: begin tenant %s: %w", tenant, err)
	}
	return s.TenantState(ctx, tenant, epoch)
}

// ReadyTenant records that the tenant's counters exist.
func (s *Store) ReadyTenant(ctx context.Context, tenant string, epoch int64) error {
	_, err := s.pool.Exec(ctx, "UPDATE tenant_states SET ready = true WHERE tenant_id = $1 AND epoch = $2", tenant, epoch)
	if err != nil {
		return fmt.Errorf("pgstore: tenant %s ready: %w", tenant, err)
	}
	return nil
}

// HasReserved reports whether anything may ever have been admitted for the tenant, in whatever epoch.
func (s *Store) HasReserved(ctx context.Context, tenant string) (bool, error) {
	var any bool
	err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM tenant_states WHERE tenant_id = $1 AND ready)", tenant).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("pgstore: read states of tenant %s: %w", tenant, err)
	}
	return any, nil
}

// HasTenantStates reports whether Redis must hold the counters of any tenant.
func (s *Store) HasTenantStates(ctx context.Context) (bool, error) {
	var any bool
	if err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM tenant_states WHERE ready)").Scan(&any); err != nil {
		return false, fmt.Errorf("pgstore: tenant states: %w", err)
	}
	return any, nil
}
