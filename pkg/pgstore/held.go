package pgstore

import (
	"context"
	"fmt"
)

// SetHeld writes what a settled reservation has held, HeldNanos, and the answer that says so: for who learns that only
// after the end. ErrNoRow if the row is not that of this settle. Repeating it changes nothing.
func (s *Store) SetHeld(ctx context.Context, row Row) error {
	tag, err := s.pool.Exec(ctx, `UPDATE reservations SET held_nanos = $5::bigint, answer = $6::bytea
		WHERE tenant_id = $1 AND reservation_id = $2 AND reserved_at = $3 AND outcome = 'settled' AND event_id = $4`,
		row.Tenant, row.ReservationID, row.ReservedAt, row.EventID, int64(row.HeldNanos), row.Answer)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNoRow
	}
	if err != nil {
		return fmt.Errorf("pgstore: reservation %s of %s: set what it held: %w", row.ReservationID, row.Tenant, err)
	}
	return nil
}
