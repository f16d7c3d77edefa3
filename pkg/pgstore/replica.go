package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// replicaLasts is how old what a replica says of itself may be: one that serves says it once a second, and serves for 2 s
// by one reading of the epoch.
const replicaLasts = touchEvery + admitFor

// Replica is what one process of admission says of itself.
type Replica struct {
	// ID is drawn by each process when it starts.
	ID string
	// Sees is the epoch whose Redis it found when it last looked; 0: none, or another Redis.
	Sees int64
	// Shown is the last epoch in whose recovery it has shown the holds that it remembers.
	Shown int64
	// LeaseReach is how long after a decision to admit the longest lease that it may give ends.
	LeaseReach time.Duration
}

// Report records what a replica says of itself. Whoever admits has reported its LeaseReach before.
func (s *Store) Report(ctx context.Context, r Replica) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO admission_replicas (replica, sees, shown, lease_reach) VALUES ($1, $2, $3, $4)
		ON CONFLICT (replica) DO UPDATE SET at = clock_timestamp(), sees = $2, shown = $3, lease_reach = $4`, r.ID, r.Sees, r.Shown, r.LeaseReach)
	if err != nil {
		return fmt.Errorf("pgstore: report: %w", err)
	}
	return nil
}

// OthersSee is how many other replicas have found the Redis of an epoch within the last 3 s. Where it is none, no other
// replica admits in that epoch by what it has seen of Redis.
func (s *Store) OthersSee(ctx context.Context, self string, epoch int64) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM admission_replicas WHERE replica <> $1 AND sees = $2 AND at > clock_timestamp() - $3::interval",
		self, epoch, replicaLasts).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("pgstore: replicas that see epoch %d: %w", epoch, err)
	}
	return n, nil
}

// Unshown is how many replicas are there that have not shown their holds in the recovery of an epoch yet.
func (s *Store) Unshown(ctx context.Context, epoch int64) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM admission_replicas WHERE shown < $1 AND at > clock_timestamp() - $2::interval",
		epoch, replicaLasts).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("pgstore: replicas that have not shown their holds: %w", err)
	}
	return n, nil
}

// Reservation names one reservation.
type Reservation struct {
	Tenant, ID string
	ReservedAt time.Time
}

// Ended says of each of list whether it has ended, or a later one of its id has: whether its row is of it or of that one.
func (s *Store) Ended(ctx context.Context, list []Reservation) ([]bool, error) {
	tenants, ids, at := make([]string, len(list)), make([]string, len(list)), make([]time.Time, len(list))
	for i, r := range list {
		tenants[i], ids[i], at[i] = r.Tenant, r.ID, r.ReservedAt
	}
	rows, err := s.pool.Query(ctx, `SELECT r.reserved_at IS NOT NULL
		FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS asked (tenant_id, reservation_id, reserved_at, n)
		LEFT JOIN reservations r ON r.tenant_id = asked.tenant_id AND r.reservation_id = asked.reservation_id AND r.reserved_at >= asked.reserved_at
		ORDER BY n`, tenants, ids, at)
	if err != nil {
		return nil, fmt.Errorf("pgstore: ends of reservations: %w", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return nil, fmt.Errorf("pgstore: ends of reservations: %w", err)
	}
	return ended, nil
}
