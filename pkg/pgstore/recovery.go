package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Generation is a number above that of every earlier leader: what one of them still does is told from what l does.
func (l *Lead) Generation(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	var n int64
	if err := l.conn.QueryRow(ctx, "SELECT pg_current_xact_id()::text::bigint").Scan(&n); err != nil {
		return 0, fmt.Errorf("pgstore: generation: %w", err)
	}
	return n, nil
}

// Begin records the masters in which the counters of an epoch are being made, once. From then on holders may leave their
// receipts there, and another Redis is another loss. False if they are recorded already, or the epoch is not being
// recovered.
func (l *Lead) Begin(ctx context.Context, epoch int64, ids []string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	tag, err := l.conn.Exec(ctx, "UPDATE redis_epoch SET masters = $2 WHERE epoch = $1 AND state = 'recovering' AND masters = '{}'",
		epoch, nonNilIDs(ids))
	if err != nil {
		return false, fmt.Errorf("pgstore: begin the recovery of epoch %d: %w", epoch, err)
	}
	return tag.RowsAffected() > 0, nil
}

const finishRecovery = `UPDATE redis_epoch SET state = 'ready', masters = $2, recovered_at = clock_timestamp()
	WHERE epoch = $1 AND state = 'recovering' AND barrier_at IS NOT NULL`

// Finish opens the epoch again: its counters are complete, in the Redis of these replication ids. It is said on the leader's own
// connection: whoever has lost the lead cannot open an epoch whose counters another leader is making anew. ErrEpochRaised, and
// nothing is changed, if the epoch is not being recovered: it was lost meanwhile, has no barrier, or is open already.
func (l *Lead) Finish(ctx context.Context, epoch int64, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	tag, err := l.conn.Exec(ctx, finishRecovery, epoch, nonNilIDs(ids))
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrEpochRaised
	}
	if err != nil {
		return fmt.Errorf("pgstore: finish the recovery of epoch %d: %w", epoch, err)
	}
	return nil
}

// ReadyTenants lists tenants whose counters existed in any epoch, in order, from the first one above after, at most limit.
func (s *Store) ReadyTenants(ctx context.Context, after string, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, "SELECT DISTINCT tenant_id FROM tenant_states WHERE ready AND tenant_id > $1 ORDER BY tenant_id LIMIT $2", after, limit)
	if err != nil {
		return nil, fmt.Errorf("pgstore: tenants: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("pgstore: tenants: %w", err)
	}
	return list, nil
}

// TenantsMade records that the counters of tenants exist in an epoch.
func (s *Store) TenantsMade(ctx context.Context, epoch int64, tenants []string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO tenant_states (tenant_id, epoch, ready) SELECT t, $1, true FROM unnest($2::text[]) AS t ORDER BY t
		ON CONFLICT (tenant_id, epoch) DO UPDATE SET ready = true`, epoch, tenants)
	if err != nil {
		return fmt.Errorf("pgstore: tenants of epoch %d: %w", epoch, err)
	}
	return nil
}

// ForgetTenants removes what is recorded of epochs before this one, whose tenants are all recorded in it.
func (s *Store) ForgetTenants(ctx context.Context, epoch int64) error {
	if _, err := s.pool.Exec(ctx, "DELETE FROM tenant_states WHERE epoch < $1", epoch); err != nil {
		return fmt.Errorf("pgstore: tenants before epoch %d: %w", epoch, err)
	}
	return nil
}
