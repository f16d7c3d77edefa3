package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// leadWithin bounds each question on a leader's connection, whatever its caller allows: where the server's host vanished
// nothing comes back, not even an error, and a leader that waits for it is none.
const leadWithin = 3 * time.Second

// leadLock is the advisory lock of the one replica that carries a recovery out.
const leadLock int64 = 0x77656972_7265636f // "weirreco"

// Lead is the right to carry a recovery out. It is a connection of its own: the server gives the right to somebody else
// when that ends, however it ends. It is not safe for concurrent use.
type Lead struct{ conn *pgx.Conn }

// TryLead takes the lead if nobody has it; nil and no error if somebody does. Whoever leads must Check between steps: a
// step that a dead leader still carries out meets the guards of the step itself.
func (s *Store) TryLead(ctx context.Context) (*Lead, error) {
	cfg := s.pool.Config().ConnConfig
	for name, value := range map[string]string{
		"application_name": "weir-admission-recovery",
		// A leader whose host vanished must lose the lead in seconds, not after the kernel's two hours.
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
		// So must one whose process stands still: a leader checks far more often.
		"idle_session_timeout": "20s",
	} {
		cfg.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: lead: %w", err)
	}
	var led bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", leadLock).Scan(&led); err != nil || !led {
		_ = conn.Close(context.WithoutCancel(ctx))
		if err != nil {
			err = fmt.Errorf("pgstore: lead: %w", err)
		}
		return nil, err
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
