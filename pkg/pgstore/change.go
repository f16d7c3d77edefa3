package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-project/weir/pkg/outbox"
)

// ErrNoRow: what was to be changed has no row (any more). Nothing was written.
var ErrNoRow = errors.New("pgstore: the reservation has no row")

// errEventID: those who settle or expire tell Kafka, and nobody else does.
var errEventID = errors.New("pgstore: an outcome without its event, or an event without its outcome")

// kind is what a change does.
type kind int

const (
	kindEnd kind = iota
	kindExternal
	kindLate
	kinds
)

// readyEpoch is the epoch whose counters may be written by scripts; NULL while they are being recovered. It cannot change
// before the end of a transaction that has run shareEpochLock, but only statements after that one see it.
const readyEpoch = `(SELECT epoch FROM redis_epoch WHERE state = 'ready')`

// shareEpochLock comes before everything else in a transaction that tells Kafka how reservations ended, as a statement of
// its own ($1 = EpochLock): a statement that reads the epoch must have its snapshot from after the lock was granted, or
// it sees the epoch that a marker has just ended. Both may travel in one batch.
const shareEpochLock = "SELECT pg_advisory_xact_lock_shared($1)"

// A change of each kind, as the middle of a statement over g, the rows of a batch in their order.
const (
	// A direct amount is applied by a script that knows the epoch of its hold, so that must be the one of now.
	applies   = `(own_mode <> 'direct' OR epoch = ` + readyEpoch + `)`
	insertEnd = `INSERT INTO reservations AS r (` + ownColumns + `) SELECT ` + ownColumns + ` FROM g WHERE ` + applies + takeOver + `
		RETURNING tenant_id, reservation_id`
	// The row of an earlier reservation of the same id gives way: the gate had forgotten that one when it granted this (ADR 0017).
	// But not to usage from elsewhere, which names the id alone: read again, it may be of the earlier one.
	takeOver = ` ON CONFLICT (tenant_id, reservation_id) DO UPDATE SET reserved_at = excluded.reserved_at, outcome = excluded.outcome,
		estimated = excluded.estimated, fingerprint = excluded.fingerprint, own_mode = excluded.own_mode, own_nanos = excluded.own_nanos,
		held_nanos = excluded.held_nanos, epoch = excluded.epoch, event_id = excluded.event_id, call = excluded.call, answer = excluded.answer,
		recorded_at = excluded.recorded_at, late_event_id = NULL, late_fingerprint = NULL, late_answer = NULL, late_at = NULL
		WHERE r.reserved_at < excluded.reserved_at AND excluded.outcome <> 'external'`
	updateExternal = `UPDATE reservations r SET outcome = 'settled', estimated = g.estimated, fingerprint = g.fingerprint, own_mode = g.own_mode,
		own_nanos = g.own_nanos, held_nanos = g.held_nanos, epoch = g.epoch, event_id = g.event_id, answer = g.answer FROM g
		WHERE r.tenant_id = g.tenant_id AND r.reservation_id = g.reservation_id AND r.reserved_at = g.reserved_at AND r.outcome = 'external'
		RETURNING r.tenant_id, r.reservation_id`
	updateLate = `UPDATE reservations r SET late_event_id = g.event_id, late_fingerprint = g.fingerprint, late_answer = g.answer,
		late_at = clock_timestamp() FROM g
		WHERE r.tenant_id = g.tenant_id AND r.reservation_id = g.reservation_id AND r.reserved_at = g.reserved_at AND r.late_event_id IS NULL
		  AND (r.outcome IN ('expired', 'released') OR r.outcome = 'settled' AND r.estimated)
		RETURNING r.tenant_id, r.reservation_id`
)

// statements are the changes with what is around them. Each row is locked by its INSERT or UPDATE, and its event is
// inserted from what that returns, or by a later statement: so the events of one reservation are numbered in the order of
// its commits. What comes back are the changes that were not made.
type statements struct {
	of [kinds]string
	// firstEnds and then firstEvents are of[kindEnd] where none of the reservations has ended yet, and an error else. They do
	// not look for each row before they insert it, as ON CONFLICT does, nor for what was inserted, nor for the epoch of each:
	// $2 is the one that all direct ends have, or 0 without any, and where it is not the one of now nothing is inserted.
	firstEnds, firstEvents string
}

func newStatements() statements {
	around := func(middle string) string {
		return `WITH g AS (SELECT * FROM unnest($1::` + endType + `[], $2::` + outbox.EventType + `[])
			WITH ORDINALITY AS g(` + ownColumns + `, ` + outbox.EventColumns + `, n)),
		changed AS (` + middle + `),
		told AS (` + outbox.InsertFrom("g JOIN changed USING (tenant_id, reservation_id)") + `)
		SELECT n::integer, g.own_mode = 'direct' AND g.epoch IS DISTINCT FROM ` + readyEpoch + ` FROM g
		WHERE NOT EXISTS (SELECT FROM changed c WHERE c.tenant_id = g.tenant_id AND c.reservation_id = g.reservation_id)`
	}
	const now = ` WHERE $2::bigint = 0 OR $2 = ` + readyEpoch
	return statements{
		of: [kinds]string{
			kindEnd: around(insertEnd), kindExternal: around(updateExternal), kindLate: around(updateLate),
		},
		firstEnds:   `INSERT INTO reservations (` + ownColumns + `) SELECT ` + ownColumns + ` FROM unnest($1::` + endType + `[])` + now,
		firstEvents: outbox.InsertFrom(`(SELECT * FROM unnest($1::` + outbox.EventType + `[])` + now + `) AS g(` + outbox.EventColumns + `)`),
	}
}

// carefulFor is how many transactions expect ends of reservations that have ended, after one that met such an end: of
// those that meet one no more than one in so many is in vain, whoever races for ends.
const carefulFor = 64

// transact writes a batch, of which no two are of one reservation, in one transaction and one round trip. It sorts the
// batch first, and its results are in that order: transactions that meet wait for each other in one direction only.
func (s *Store) transact(ctx context.Context, batch []*change) ([]result, error) {
	slices.SortFunc(batch, func(a, b *change) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.row.Tenant, b.row.Tenant), cmp.Compare(a.row.ReservationID, b.row.ReservationID))
	})
	epoch, alike := directEpoch(batch)
	if s.careful.Load() > 0 {
		s.careful.Add(-1)
		alike = false
	}
	if !alike {
		return s.send(ctx, batch)
	}
	written, err := s.sendFirst(ctx, batch, epoch)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == uniqueViolation {
		s.careful.Store(carefulFor)
	} else if written || err != nil {
		return slices.Repeat([]result{{done: true}}, len(batch)), err
	}
	return s.send(ctx, batch)
}

const uniqueViolation = "23505"

// directEpoch is the epoch of those of a batch that are direct, 0 without any; false if they are of several, or if not all
// of the batch are ends.
func directEpoch(batch []*change) (epoch int64, alike bool) {
	for _, c := range batch {
		switch {
		case c.kind != kindEnd:
			return 0, false
		case c.row.OwnMode != OwnDirect:
		case c.row.Epoch == 0 || epoch != 0 && epoch != c.row.Epoch:
			return 0, false
		default:
			epoch = c.row.Epoch
		}
	}
	return epoch, true
}

// sendFirst writes ends of reservations that have not ended: all, or none and false where the epoch is another one. It
// fails where a reservation has ended.
func (s *Store) sendFirst(ctx context.Context, batch []*change, epoch int64) (written bool, err error) {
	ends, events, err := parameters(batch)
	if err != nil {
		return false, err
	}
	var transaction pgx.Batch // its statements are one transaction, which commits at its end
	transaction.Queue(shareEpochLock, EpochLock)
	transaction.Queue(s.statements.firstEnds, ends, epoch).Exec(func(tag pgconn.CommandTag) error {
		written = tag.RowsAffected() > 0
		return nil
	})
	transaction.Queue(s.statements.firstEvents, events, epoch)
	// Close returns after the commit, and its error may be that of the commit: only what it passes is there.
	err = s.pool.SendBatch(ctx, &transaction).Close()
	return written, err
}

// send writes a batch, whatever has ended.
func (s *Store) send(ctx context.Context, batch []*change) ([]result, error) {
	results := make([]result, len(batch))
	var transaction pgx.Batch
	transaction.Queue(shareEpochLock, EpochLock)
	for from, to := 0, 0; from < len(batch); from = to {
		k := batch[from].kind
		for to < len(batch) && batch[to].kind == k {
			to++
		}
		ends, events, err := parameters(batch[from:to])
		if err != nil {
			return nil, err
		}
		part := results[from:to]
		transaction.Queue(s.statements.of[k], ends, events).Query(func(rows pgx.Rows) error { return k.read(rows, part) })
	}
	if err := s.pool.SendBatch(ctx, &transaction).Close(); err != nil {
		return nil, err
	}
	return results, nil
}

// parameters are the rows of changes and their events, one for each.
func parameters(batch []*change) (ends, events *outbox.Rows, err error) {
	var list outbox.List
	stored, told := sizes(batch)
	ends = new(outbox.Rows)
	ends.Grow(len(batch), endColumns, stored)
	list.Grow(len(batch), told)
	for _, c := range batch {
		c.row.appendTo(ends)
		if err := list.Add(c.event); err != nil {
			return nil, nil, err
		}
	}
	return ends, list.Rows(), nil
}

// sizes are about how many bytes the rows and the events of changes bring.
func sizes(batch []*change) (stored, told int) {
	for _, c := range batch {
		stored += 400 + len(c.row.Call) + len(c.row.Answer) // 400: the other columns, in bytes
		if c.event != nil {
			told += len(c.event.Payload)
		}
	}
	return stored, told
}

// read takes what a statement says of its changes: it names those that it did not make by their places.
func (k kind) read(rows pgx.Rows, results []result) error {
	for i := range results {
		results[i].done = true
	}
	var n int
	var stale bool
	_, err := pgx.ForEachRow(rows, []any{&n, &stale}, func() error {
		results[n-1].done = false
		if k == kindEnd && stale {
			results[n-1].err = ErrEpochRaised
		}
		return nil
	})
	return err
}

// endType is the composite type of ownColumns (migrations/postgres/0005_rows).
const endType = "reservation_end"

// endColumns is their number.
const endColumns = 13

// appendTo adds the row in the order of ownColumns.
func (r *Row) appendTo(rows *outbox.Rows) {
	rows.Begin(endColumns)
	rows.Text(r.Tenant)
	rows.Text(r.ReservationID)
	rows.Timestamptz(r.ReservedAt)
	rows.Text(string(r.Outcome))
	rows.Boolean(r.Estimated)
	rows.Bytea(r.Fingerprint)
	rows.Text(string(r.OwnMode))
	rows.Bigint(int64(r.OwnNanos))
	rows.Bigint(int64(r.HeldNanos))
	rows.Bigint(r.Epoch)
	rows.Text(r.EventID)
	rows.Bytea(r.Call)
	rows.Bytea(r.Answer)
	rows.End()
}

// decide writes a change and returns row and true, or the row that holds and false.
func (s *Store) decide(ctx context.Context, c change) (Row, bool, error) {
	fail := func(what string, err error) (Row, bool, error) {
		return Row{}, false, fmt.Errorf("pgstore: reservation %s of %s: %s: %w", c.row.ReservationID, c.row.Tenant, what, err)
	}
	// What is wrong is refused before it can hold up others.
	if c.kind != kindLate && (c.row.EventID != "") != (c.row.Outcome == Settled || c.row.Outcome == Expired) {
		return fail("check", errEventID)
	}
	if c.event != nil {
		if err := c.event.Check(); err != nil {
			return fail("event", err)
		}
	}
	done, err := s.group.do(ctx, &c)
	switch {
	case err != nil:
		return fail("write", err)
	case done:
		return c.row, true, nil
	}
	stored, ok, err := s.Get(ctx, c.row.Tenant, c.row.ReservationID)
	if err == nil && !ok {
		return fail("read", ErrNoRow)
	}
	return stored, false, err
}
