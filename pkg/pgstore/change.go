package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/outbox"
)

// ErrNoRow: what was to be changed has no row (any more). Nothing was written.
var ErrNoRow = errors.New("pgstore: the reservation has no row")

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

// A change of each kind, as the middle of a statement over g, the rows of a batch.
const (
	// A direct amount is applied by a script that knows the epoch of its hold, so that must be the one of now.
	insertEnd = `INSERT INTO reservations (` + ownColumns + `) SELECT ` + ownColumns + ` FROM g
		WHERE own_mode <> 'direct' OR epoch = ` + readyEpoch + ` ORDER BY n ON CONFLICT DO NOTHING
		RETURNING tenant_id, reservation_id`
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
// inserted from what that returns: so the events of one reservation are numbered in the order of its commits.
func statements() [kinds]string {
	var all [kinds]string
	for k, middle := range map[kind]string{kindEnd: insertEnd, kindExternal: updateExternal, kindLate: updateLate} {
		all[k] = `WITH g AS (SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::boolean[], $6::bytea[], $7::text[],
			$8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bytea[], $13::bytea[], ` + outbox.EventArrays(14) + `)
			WITH ORDINALITY AS g(` + ownColumns + `, ` + outbox.EventColumns + `, n)),
		changed AS (` + middle + `),
		told AS (` + outbox.InsertFrom("g JOIN changed USING (tenant_id, reservation_id)") + `)
		SELECT n::integer, c.tenant_id IS NOT NULL, g.own_mode = 'direct' AND g.epoch IS DISTINCT FROM ` + readyEpoch + `
		FROM g LEFT JOIN changed c USING (tenant_id, reservation_id)`
	}
	return all
}

// transact writes a batch, of which no two are of one reservation, in one transaction and one round trip. It sorts the
// batch first, and its results are in that order: transactions that meet wait for each other in one direction only.
func (s *Store) transact(ctx context.Context, batch []*change) ([]result, error) {
	slices.SortFunc(batch, func(a, b *change) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.row.Tenant, b.row.Tenant), cmp.Compare(a.row.ReservationID, b.row.ReservationID))
	})
	results := make([]result, len(batch))
	var transaction pgx.Batch // its statements are one transaction, which commits at its end
	transaction.Queue(shareEpochLock, EpochLock)
	for from, to := 0, 0; from < len(batch); from = to {
		k := batch[from].kind
		var l lists
		for ; to < len(batch) && batch[to].kind == k; to++ {
			if err := l.add(batch[to]); err != nil {
				return nil, err
			}
		}
		part := results[from:to]
		transaction.Queue(s.statements[k], l.args()...).Query(func(rows pgx.Rows) error { return k.read(rows, part) })
	}
	// Close returns after the commit, and its error may be that of the commit: only what it passes is there.
	if err := s.pool.SendBatch(ctx, &transaction).Close(); err != nil {
		return nil, err
	}
	return results, nil
}

// read takes the verdicts of a statement on its changes, which name them by their places.
func (k kind) read(rows pgx.Rows, results []result) error {
	var n int
	var done, stale bool
	_, err := pgx.ForEachRow(rows, []any{&n, &done, &stale}, func() error {
		results[n-1].done = done
		if k == kindEnd && stale && !done {
			results[n-1].err = ErrEpochRaised
		}
		return nil
	})
	return err
}

// lists are the changes of one statement, a list per column in the order of ownColumns.
type lists struct {
	tenant, id, outcome, mode, event []string
	reservedAt                       []time.Time
	estimated                        []bool
	fingerprint, call, answer        [][]byte
	own, held, epoch                 []int64
	events                           outbox.Lists
}

func (l *lists) add(c *change) error {
	r := c.row
	l.tenant, l.id, l.reservedAt = append(l.tenant, r.Tenant), append(l.id, r.ReservationID), append(l.reservedAt, r.ReservedAt)
	l.outcome, l.estimated, l.mode = append(l.outcome, string(r.Outcome)), append(l.estimated, r.Estimated), append(l.mode, string(r.OwnMode))
	l.own, l.held, l.epoch = append(l.own, int64(r.OwnNanos)), append(l.held, int64(r.HeldNanos)), append(l.epoch, r.Epoch)
	l.event, l.call = append(l.event, r.EventID), append(l.call, nonNil(r.Call))
	l.fingerprint, l.answer = append(l.fingerprint, nonNil(r.Fingerprint)), append(l.answer, nonNil(r.Answer))
	return l.events.Add(c.event)
}

func (l *lists) args() []any {
	return append([]any{l.tenant, l.id, l.reservedAt, l.outcome, l.estimated, l.fingerprint, l.mode, l.own, l.held, l.epoch, l.event, l.call, l.answer},
		l.events.Args()...)
}

// decide writes a change and returns row and true, or the row that holds and false.
func (s *Store) decide(ctx context.Context, c change) (Row, bool, error) {
	fail := func(what string, err error) (Row, bool, error) {
		return Row{}, false, fmt.Errorf("pgstore: reservation %s of %s: %s: %w", c.row.ReservationID, c.row.Tenant, what, err)
	}
	if c.event != nil { // before it can hold up others
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
