package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// leadWithin bounds each question on a leader's connection, whatever its caller allows: where the server's host vanished
// nothing comes back, not even an error, and a leader that waits for it is none.
const leadWithin = 3 * time.Second

// The advisory locks of which one process has the lead at a time.
const (
	recoveryLock int64 = 0x77656972_7265636f // "weirreco": the replica that carries a recovery out
	tenantsLock  int64 = 0x77656972_74656e61 // "weirtena": whoever changes the catalog of tenants
)

// ErrLed says that somebody else had the lead for as long as was waited.
var ErrLed = errors.New("pgstore: somebody else has the lead")

// Lead is the right to do what one process may do at a time. It is a connection of its own: the server gives the right to
// somebody else when that ends, however it ends. It is not safe for concurrent use.
type Lead struct{ conn *pgx.Conn }

// TryLead takes the lead of a recovery if nobody has it; nil and no error if somebody does. Whoever leads must Check between
// steps: a step that a dead leader still carries out meets the guards of the step itself.
func (s *Store) TryLead(ctx context.Context) (*Lead, error) {
	l, err := s.connectLead(ctx, map[string]string{"application_name": "weir-admission-recovery"})
	if err != nil {
		return nil, err
	}
	var led bool
	if err := l.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", recoveryLock).Scan(&led); err != nil || !led {
		_ = l.Close(context.WithoutCancel(ctx))
		if err != nil {
			err = fmt.Errorf("pgstore: lead: %w", err)
		}
		return nil, err
	}
	return l, nil
}

// LeadTenants takes the lead of changes of the catalog of tenants, and waits for it so long; ErrLed if somebody has it still.
// Whoever leads must Check before it publishes.
func (s *Store) LeadTenants(ctx context.Context, wait time.Duration) (*Lead, error) {
	timeout := strconv.FormatInt(max(1, wait.Milliseconds()), 10) // 0 would wait for ever
	l, err := s.connectLead(ctx, map[string]string{"application_name": "weir-tenants", "lock_timeout": timeout})
	if err != nil {
		return nil, err
	}
	if _, err := l.conn.Exec(ctx, "SELECT pg_advisory_lock($1)", tenantsLock); err != nil {
		_ = l.Close(context.WithoutCancel(ctx))
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
			return nil, ErrLed
		}
		return nil, fmt.Errorf("pgstore: lead: %w", err)
	}
	return l, nil
}

func (s *Store) connectLead(ctx context.Context, params map[string]string) (*Lead, error) {
	cfg := s.pool.Config().ConnConfig
	maps.Copy(cfg.RuntimeParams, params)
	maps.Copy(cfg.RuntimeParams, map[string]string{
		// A leader whose host vanished must lose the lead in seconds, not after the kernel's two hours.
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
		// So must one whose process stands still: a leader checks far more often.
		"idle_session_timeout": "20s",
	})
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: lead: %w", err)
	}
	return &Lead{conn: conn}, nil
}

// Check reports whether the lead still stands.
func (l *Lead) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	if err := l.conn.Ping(ctx); err != nil {
		return fmt.Errorf("pgstore: the lead is lost: %w", err)
	}
	return nil
}

// Close gives the lead up.
func (l *Lead) Close(ctx context.Context) error { return l.conn.Close(ctx) }
