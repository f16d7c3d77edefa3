package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// slots is the number of list partitions, outbox_0 and up.
const slots = 4

// lockNotAvailable is SQLSTATE 55P03, the answer of NOWAIT.
const lockNotAvailable = "55P03"

// Rotation says what Rotate did.
type Rotation struct {
	// Emptied are the slots that were truncated.
	Emptied int
	// Held are the slots that have rows but cannot be emptied yet: a transaction which wrote to them is open, or rows in
	// them are unpublished. A count that stays above zero is a writer that never ends, or a reader such as pg_dump.
	Held int
	// Moved is true when writers were pointed at another slot.
	Moved bool
}

// Rotate empties the slots whose every row is published and points the writers at an empty one, so that the current slot
// can be emptied in a later call. Where no other slot is empty, writers stay and the current slot grows.
func (s *Session) Rotate(ctx context.Context) (Rotation, error) {
	var current int
	if err := s.conn.QueryRow(ctx, "SELECT current FROM outbox_slot").Scan(&current); err != nil {
		return Rotation{}, fmt.Errorf("outbox: read the current slot: %w", err)
	}
	var out Rotation
	free := -1
	for i := 1; i < slots; i++ {
		slot := (current + i) % slots
		used, err := s.used(ctx, slot)
		if err != nil {
			return out, err
		}
		if used {
			emptied, err := s.empty(ctx, slot)
			if err != nil {
				return out, err
			}
			if !emptied {
				out.Held++
				continue
			}
			out.Emptied++
		}
		if free < 0 {
			free = slot
		}
	}
	used, err := s.used(ctx, current)
	if err != nil || !used || free < 0 {
		return out, err
	}
	if _, err := s.conn.Exec(ctx, "UPDATE outbox_slot SET current = $1", free); err != nil {
		return out, fmt.Errorf("outbox: move writers to slot %d: %w", free, err)
	}
	out.Moved = true
	return out, nil
}

func (s *Session) used(ctx context.Context, slot int) (used bool, err error) {
	err = s.conn.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM outbox_%d)", slot)).Scan(&used)
	if err != nil {
		return false, fmt.Errorf("outbox: look into slot %d: %w", slot, err)
	}
	return used, nil
}

// empty truncates a slot if nothing can be lost by it. Why nothing can:
//  1. The lock conflicts with that of every transaction which has written to the slot, and such locks are held to the
//     end (also by prepared transactions). So, once it is granted, each row in the slot is committed or void.
//  2. The look comes after the lock, in a statement and hence a snapshot of its own (read committed), and so sees every
//     committed row. It asks the cursor in the table, not a memory of it: an unpublished row ends the attempt.
//  3. A transaction that chose this slot long ago but has not written yet waits for our lock and then writes to the
//     emptied slot. This is why the slot is truncated, never dropped.
//
// NOWAIT: a waiting lock request would make writers queue behind it.
func (s *Session) empty(ctx context.Context, slot int) (bool, error) {
	emptied := false
	err := pgx.BeginTxFunc(ctx, s.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("LOCK TABLE ONLY outbox_%d IN ACCESS EXCLUSIVE MODE NOWAIT", slot)); err != nil {
			return err
		}
		var published string
		if err := tx.QueryRow(ctx, "SELECT published::text FROM outbox_cursor").Scan(&published); err != nil {
			return err
		}
		var unpublished bool
		err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM outbox_%[1]d WHERE xid >= pg_snapshot_xmax($1::text::pg_snapshot))
			OR EXISTS (SELECT FROM outbox_%[1]d WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))))`, slot), published).Scan(&unpublished)
		if err != nil || unpublished {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("TRUNCATE ONLY outbox_%d", slot)); err != nil {
			return err
		}
		emptied = true
		return nil
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("outbox: empty slot %d: %w", slot, err)
	}
	return emptied, nil
}
