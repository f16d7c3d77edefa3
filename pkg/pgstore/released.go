package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// maxNamed bounds the tenants that have a reservation of one id.
const maxNamed = 100

// ReleasedBy lists the tenants, in order, that released a reservation of this id and have not settled it since: of such a one nothing
// is booked, so the journal does not know it. One that was pruned is not there.
func (s *Store) ReleasedBy(ctx context.Context, id string) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT tenant_id FROM reservations WHERE reservation_id = $1 AND outcome = $2 AND late_event_id IS NULL
		ORDER BY tenant_id LIMIT $3`, id, string(Released), maxNamed)
	if err != nil {
		return nil, fmt.Errorf("pgstore: reservations %s: read: %w", id, err)
	}
	tenants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("pgstore: reservations %s: read: %w", id, err)
	}
	return tenants, nil
}
