package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Limits bound one batch. A single event above Bytes still comes, alone.
type Limits struct {
	// Rows is the most rows, at least 1.
	Rows int
	// Bytes is the most payload, in bytes; the last row may exceed it.
	Bytes int64
}

// Row is one event to be published.
type Row struct {
	Event
	// Seq is the row's number: unique, and in commit order within one AggregateID.
	Seq int64
	// CreatedAt is the database's clock when the row was inserted.
	CreatedAt time.Time
}

// Batch is what Advance records as published. The zero Batch is nothing to do.
type Batch struct {
	// Rows are in the order in which they must be published.
	Rows []Row
	next cursor
}

// emitted is what the queries below return per row. foreign marks a transaction number of the future, which a visible
// row can only have if it was written in another cluster.
const (
	columns = `seq, id, aggregatetype, aggregateid, type, payload, headers, content_type, signature, topic, partition, created_at, xid,
		octet_length(payload) + coalesce(pg_column_size(headers), 0) + coalesce(octet_length(content_type), 0) + coalesce(octet_length(signature), 0) AS size`
	emitted = `SELECT seq, id, aggregatetype, aggregateid, type, coalesce(topic, ''), partition, payload, headers::text, content_type, signature, created_at,
		pg_current_snapshot()::text, total, NOT pg_visible_in_snapshot(xid, pg_current_snapshot())`
)

// freshRows are the rows which are visible to this statement and were not in snapshot $1. Not visible in a snapshot
// means: at or above its xmax, or among its transactions in progress; both are ranges of the index on xid, so the cost
// is that of the new rows, however old the oldest open transaction is. $2 rows of either kind are looked at; if there are
// more, the caller drains by seq instead.
const freshRows = `WITH fresh AS MATERIALIZED (
	(SELECT ` + columns + ` FROM outbox WHERE xid >= pg_snapshot_xmax($1::text::pg_snapshot) LIMIT $2)
	UNION ALL
	(SELECT ` + columns + ` FROM outbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))) LIMIT $2))
	` + emitted + ` FROM (SELECT *, count(*) OVER () AS total, sum(size) OVER (ORDER BY seq) - size AS before FROM fresh) f
	WHERE before < $3 ORDER BY seq`

// drainedRows walk a tick that is too large for one batch, in seq order from $3: in snapshot $2, but not in $1. The tick
// is the set between two fixed snapshots, so its rows stay the same however long the walk takes.
const drainedRows = emitted + ` FROM (SELECT *, count(*) OVER () AS total, sum(size) OVER (ORDER BY seq) - size AS before FROM (
	SELECT ` + columns + ` FROM outbox WHERE seq > $3 AND NOT pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
	AND pg_visible_in_snapshot(xid, $2::text::pg_snapshot) ORDER BY seq LIMIT $4) g) d
	WHERE before < $5 ORDER BY seq`

// result is what one of the queries found: the rows within the byte limit, of total rows within the row limit.
type result struct {
	rows     []Row
	snapshot string
	total    int
}

// Next returns what is to be published next. Until Advance, every call starts at the same place, possibly with more rows.
// An empty batch means that all is published.
func (s *Session) Next(ctx context.Context, l Limits) (Batch, error) {
	l.Rows = max(l.Rows, 1)
	c := s.cursor
	if c.draining != nil {
		b, err := s.drain(ctx, *c.draining, c.position, l)
		if err != nil || len(b.Rows) > 0 {
			return b, err
		}
		if err := s.moveCursor(ctx, s.conn, b.next); err != nil { // the tick ended exactly at a batch's end
			return Batch{}, err
		}
		c = s.cursor
	}
	fresh, err := s.query(ctx, freshRows, c.published, l.Rows+1, max(l.Bytes, 1))
	if err != nil || fresh.total == 0 {
		return Batch{}, err
	}
	if fresh.total > l.Rows {
		start, err := s.firstSeq(ctx)
		if err != nil {
			return Batch{}, err
		}
		return s.drain(ctx, fresh.snapshot, start-1, l)
	}
	return fresh.batch(c, fresh.snapshot, len(fresh.rows) == fresh.total), nil
}

// firstSeq is a lower bound of the numbers in the new tick, so that its walk need not pass what is published but not
// yet emptied. For a huge tick it does not look for it: that detour is short against the tick then.
func (s *Session) firstSeq(ctx context.Context) (int64, error) {
	var first int64
	err := s.conn.QueryRow(ctx, `SELECT CASE WHEN count(*) < $2 THEN coalesce(min(seq), 1) ELSE 1 END FROM (
		(SELECT seq FROM outbox WHERE xid >= pg_snapshot_xmax($1::text::pg_snapshot) LIMIT $2)
		UNION ALL
		(SELECT seq FROM outbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))) LIMIT $2)) f`,
		s.cursor.published, 50_000).Scan(&first)
	if err != nil {
		return 0, fmt.Errorf("outbox: find the start of a tick: %w", err)
	}
	return first, nil
}

// drain reads the rows after number from of the tick that ends with snapshot.
func (s *Session) drain(ctx context.Context, snapshot string, from int64, l Limits) (Batch, error) {
	found, err := s.query(ctx, drainedRows, s.cursor.published, snapshot, from, l.Rows, max(l.Bytes, 1))
	if err != nil {
		return Batch{}, err
	}
	return found.batch(s.cursor, snapshot, len(found.rows) == found.total && found.total < l.Rows), nil
}

// batch says where the cursor stands after the rows: at the next tick if this one is complete, else within it.
func (r result) batch(from cursor, snapshot string, complete bool) Batch {
	next := from
	if complete {
		next.tick, next.published, next.draining, next.position = from.tick+1, snapshot, nil, 0
	} else {
		next.draining, next.position = &snapshot, r.rows[len(r.rows)-1].Seq
	}
	return Batch{Rows: r.rows, next: next}
}

func (s *Session) query(ctx context.Context, sql string, args ...any) (result, error) {
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return result{}, fmt.Errorf("outbox: read: %w", err)
	}
	var out result
	foreign := false
	out.rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
		var others []byte
		var contentType, signature *string
		var future bool
		err = row.Scan(&r.Seq, &r.ID, &r.AggregateType, &r.AggregateID, &r.Type, &r.Topic, &r.Partition, &r.Payload, &others, &contentType, &signature, &r.CreatedAt,
			&out.snapshot, &out.total, &future)
		foreign = foreign || future
		if err == nil && others != nil {
			err = json.Unmarshal(others, &r.Headers)
		}
		r.Headers = joined(r.Headers, contentType, signature)
		return r, err
	})
	if err != nil {
		return result{}, fmt.Errorf("outbox: read: %w", err)
	}
	if foreign {
		return result{}, ErrForeign
	}
	return out, nil
}
