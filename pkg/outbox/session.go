package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// leadKey is the advisory lock of the one relay that drains a database.
const leadKey = 0x77656972_6f757462 // "weiroutb"

var (
	// ErrFenced is a cursor that somebody else moved: this session no longer leads and must be closed.
	ErrFenced = errors.New("outbox: the cursor was moved by another relay")
	// ErrForeign is a table whose transaction numbers come from another cluster (a restored dump). Running on would lose
	// rows, so an operator decides: see outbox_adopt in docs/outbox.md.
	ErrForeign = errors.New("outbox: rows or cursor come from another database cluster (a restored dump?): after making sure that the relay of the " +
		"old cluster is stopped, run SELECT outbox_adopt(); everything still in the table is then published, again where it already was")
	// ErrStandby is a server in recovery, where no cursor can be kept.
	ErrStandby = errors.New("outbox: the server is a read-only standby")
)

// Session is one relay's connection to one database. The leader's lock, its reads and its cursor live on this one
// connection, so a relay whose connection broke cannot go on by mistake. It is not safe for concurrent use.
//
// It needs a direct connection or session pooling: transaction pooling would give the lock away.
type Session struct {
	conn   *pgx.Conn
	cursor cursor
}

// cursor is the row of outbox_cursor as this session last wrote or read it.
type cursor struct {
	ctid           string
	tick, position int64
	published      string
	draining       *string
}

// Open connects. It changes nothing in the database.
func Open(ctx context.Context, url string) (*Session, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err) // pgx keeps the password out of it
	}
	for name, value := range map[string]string{
		"application_name": "weir-outbox-relay",
		// Every statement must see what has committed before it.
		"default_transaction_isolation": "read committed",
		// The slots have no statistics worth the name (they are emptied all the time) and each query has one right index.
		// Seen without these: a scan of the whole slot at every poll, and JIT compilation of a 0.2 ms query.
		"enable_seqscan":  "off",
		"enable_sort":     "off",
		"jit":             "off",
		"plan_cache_mode": "force_custom_plan",
		// A leader whose host vanished must lose its lock in seconds, not after the kernel's two hours.
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "3",
		"tcp_user_timeout":        "25000",
	} {
		cfg.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("outbox: connect: %w", err)
	}
	return &Session{conn: conn}, nil
}

// Close ends the session and with it the leadership.
func (s *Session) Close(ctx context.Context) error { return s.conn.Close(ctx) }

// Check asks whether the connection, and so the leadership, still stands.
func (s *Session) Check(ctx context.Context) error {
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("outbox: connection lost: %w", err)
	}
	return nil
}

// TryLead takes the lead if nobody has it, and then reads the cursor. false means to try again later. ErrForeign and
// ErrStandby are refusals.
func (s *Session) TryLead(ctx context.Context) (bool, error) {
	var led, standby bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1), pg_is_in_recovery()", int64(leadKey)).Scan(&led, &standby); err != nil {
		return false, fmt.Errorf("outbox: take the lead: %w", err)
	}
	if standby {
		return false, ErrStandby
	}
	if !led {
		return false, nil
	}
	// A new cursor starts with a snapshot in which nothing is visible: whatever is in the table is still to be published.
	_, err := s.conn.Exec(ctx, `INSERT INTO outbox_cursor (system_identifier, tick, published)
		SELECT system_identifier, 0, '1:1:' FROM pg_control_system() ON CONFLICT DO NOTHING`)
	if err != nil {
		return false, fmt.Errorf("outbox: create the cursor: %w", err)
	}
	return true, s.loadCursor(ctx)
}

func (s *Session) loadCursor(ctx context.Context) error {
	var same bool
	c := cursor{}
	err := s.conn.QueryRow(ctx, `SELECT c.ctid::text, tick, position, published::text, draining::text, c.system_identifier = p.system_identifier
		FROM outbox_cursor c, pg_control_system() p`).Scan(&c.ctid, &c.tick, &c.position, &c.published, &c.draining, &same)
	if err != nil {
		return fmt.Errorf("outbox: read the cursor: %w", err)
	}
	if !same {
		return ErrForeign
	}
	s.cursor = c
	return nil
}

// Parked is a row that is taken out of the stream.
type Parked struct {
	Seq int64
	// Reason is a short code, e.g. "too_large".
	Reason string
}

// Advance records that every row of b is acknowledged by the broker or parked: the only place where the cursor moves.
// ErrFenced means that another relay has moved it; nothing was changed then.
func (s *Session) Advance(ctx context.Context, b Batch, parked []Parked) error {
	if len(parked) == 0 {
		return s.moveCursor(ctx, s.conn, b.next)
	}
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		for _, p := range parked {
			_, err := tx.Exec(ctx, `INSERT INTO outbox_parked (seq, id, aggregatetype, aggregateid, type, payload, headers, topic, partition, created_at, reason)
				SELECT seq, id, aggregatetype, aggregateid, type, payload, `+allHeaders+`, topic, partition, created_at, $2 FROM outbox WHERE seq = $1
				ON CONFLICT DO NOTHING`, p.Seq, p.Reason)
			if err != nil {
				return fmt.Errorf("outbox: park row %d: %w", p.Seq, err)
			}
		}
		return s.moveCursor(ctx, tx, b.next)
	})
}

// allHeaders are the headers of a row as one object, as outbox_parked keeps them.
const allHeaders = `coalesce(headers, '{}') || jsonb_strip_nulls(jsonb_build_object('` + contentTypeHeader + `', content_type, '` + signatureHeader + `', signature))`

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// moveByKey: (tick, position) only grows, so it is the fence.
const moveByKey = `UPDATE outbox_cursor SET tick = $1, position = $2, published = $3::text::pg_snapshot, draining = $4::text::pg_snapshot,
	updated_at = clock_timestamp() WHERE tick = $5 AND position = $6`

// moveByPlace comes first: while some transaction holds back vacuum, the row's dead versions pile up by the thousand, and
// finding the live one by key means visiting them all. It finds nothing in the rare case that the row was moved by something
// else than an update (VACUUM FULL).
const moveByPlace = moveByKey + " AND ctid = $7::text::tid"

func (s *Session) moveCursor(ctx context.Context, db querier, to cursor) error {
	args := []any{to.tick, to.position, to.published, to.draining, s.cursor.tick, s.cursor.position}
	err := db.QueryRow(ctx, moveByPlace+" RETURNING ctid::text", append(args, s.cursor.ctid)...).Scan(&to.ctid)
	if errors.Is(err, pgx.ErrNoRows) {
		err = db.QueryRow(ctx, moveByKey+" RETURNING ctid::text", args...).Scan(&to.ctid)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrFenced
	}
	if err != nil {
		return fmt.Errorf("outbox: move the cursor: %w", err)
	}
	s.cursor = to
	return nil
}
