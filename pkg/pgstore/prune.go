package pgstore

import (
	"context"
	"fmt"
	"time"
)

const (
	// pruneParts is into how many parts the table of reservations is divided, one for each minute of a day.
	pruneParts = 24 * 60
	// pruneBlocks is the least that is looked at, in blocks: 8 MB.
	pruneBlocks = 1000
)

// Old reservations are found by their place: an index of their age would be written at every end.
const pruneReservations = `DELETE FROM reservations WHERE ctid = ANY (ARRAY(SELECT ctid FROM reservations
	WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND recorded_at < $3 LIMIT $4))`

const pruneExecutions = `DELETE FROM executions WHERE (tenant_id, root_execution_id) IN
	(SELECT tenant_id, root_execution_id FROM executions WHERE created_at < $1 ORDER BY created_at LIMIT $2)`

// Prune removes up to limit reservations and executions each that are older than their retention, and replicas that are
// gone for a day; the number is what was removed of the former two. It looks for reservations in that part of the table which the
// minute of their time has, so whoever calls each minute has looked everywhere after a day. A reservation id that is gone may be
// used again.
func (s *Store) Prune(ctx context.Context, reservations, executions time.Time, limit int) (int64, error) {
	removed, err := s.pruneReservations(ctx, reservations, limit)
	if err != nil {
		return removed, fmt.Errorf("pgstore: prune reservations: %w", err)
	}
	tag, err := s.pool.Exec(ctx, pruneExecutions, executions, limit)
	if err != nil {
		return removed, fmt.Errorf("pgstore: prune executions: %w", err)
	}
	removed += tag.RowsAffected()
	if _, err := s.pool.Exec(ctx, "DELETE FROM admission_replicas WHERE at + lease_reach < clock_timestamp() - interval '1 day'"); err != nil {
		return removed, fmt.Errorf("pgstore: prune replicas: %w", err)
	}
	return removed, nil
}

func (s *Store) pruneReservations(ctx context.Context, before time.Time, limit int) (int64, error) {
	var blocks int64
	err := s.pool.QueryRow(ctx, "SELECT pg_relation_size('reservations') / current_setting('block_size')::bigint").Scan(&blocks)
	if err != nil {
		return 0, err
	}
	from, to := prunePart(blocks, before)
	tag, err := s.pool.Exec(ctx, pruneReservations, block(from), block(to), before, limit)
	return tag.RowsAffected(), err
}

// prunePart is the part of a table of so many blocks that a minute has, from one block to before another.
func prunePart(blocks int64, at time.Time) (from, to int64) {
	minute := (at.Unix()/60%pruneParts + pruneParts) % pruneParts
	from = blocks * minute / pruneParts
	return from, max(from+pruneBlocks, blocks*(minute+1)/pruneParts)
}

// block is the place of a block's beginning, as a tid.
func block(n int64) string { return fmt.Sprintf("(%d,0)", n) }
