package outbox

import (
	"context"
	"fmt"
	"time"
)

// maxCounted bounds what Measure counts: a larger backlog is reported as this many rows.
const maxCounted = 1_000_000

// Backlog is what is committed but not yet recorded as published.
type Backlog struct {
	// Rows stops at maxCounted (per part of a tick, so at most twice that).
	Rows int64
	// Oldest is the age of the oldest of them by the database's clock, zero if there is none.
	Oldest time.Duration
	// Parked is the number of rows in outbox_parked.
	Parked int64
}

// measure counts the rest of a tick in progress by seq, and what came after it by xid; both are index ranges.
const measure = `WITH c AS (SELECT coalesce((SELECT published FROM outbox_cursor), '1:1:') AS published,
	(SELECT draining FROM outbox_cursor) AS draining, coalesce((SELECT position FROM outbox_cursor), 0) AS position),
unsent AS (
	(SELECT created_at FROM outbox WHERE xid >= (SELECT pg_snapshot_xmax(coalesce(draining, published)) FROM c) LIMIT $1)
	UNION ALL
	(SELECT created_at FROM outbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(coalesce(draining, published)) FROM c)) LIMIT $1)
	UNION ALL
	(SELECT created_at FROM outbox, c WHERE c.draining IS NOT NULL AND seq > (SELECT position FROM c)
		AND pg_visible_in_snapshot(xid, c.draining) AND NOT pg_visible_in_snapshot(xid, c.published) LIMIT $1))
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8, (SELECT count(*) FROM outbox_parked) FROM unsent`

// Measure looks at the backlog. It needs no lead: a replica measures on a session of its own, so that figures go on
// while the leader waits for Kafka.
func (s *Session) Measure(ctx context.Context) (Backlog, error) {
	var b Backlog
	var seconds float64
	if err := s.conn.QueryRow(ctx, measure, maxCounted).Scan(&b.Rows, &seconds, &b.Parked); err != nil {
		return Backlog{}, fmt.Errorf("outbox: measure the backlog: %w", err)
	}
	b.Oldest = max(0, time.Duration(seconds*float64(time.Second)))
	return b, nil
}
