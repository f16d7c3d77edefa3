package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/outbox"
)

// Outcome is how a reservation ended.
type Outcome string

// The outcomes (migrations/postgres/0002_admission).
const (
	Settled  Outcome = "settled"
	Released Outcome = "released"
	Expired  Outcome = "expired"
	// External: its usage reached Kafka by another way, and the hold was closed at nothing.
	External Outcome = "external"
)

// OwnMode says who adds OwnNanos to Redis.
type OwnMode string

// The modes of design.md 4.4.
const (
	OwnNone    OwnMode = ""
	OwnDirect  OwnMode = "direct"
	OwnJournal OwnMode = "journal"
)

// Row is the record of a reservation's end.
type Row struct {
	Tenant        string
	ReservationID string
	// ReservedAt names the hold among those that had this id; microseconds.
	ReservedAt time.Time
	Outcome    Outcome
	// Estimated: settled at the estimate because the usage is missing.
	Estimated   bool
	Fingerprint []byte
	OwnMode     OwnMode
	OwnNanos    money.Nano
	HeldNanos   money.Nano
	Epoch       int64
	// EventID is the usage event of the same transaction; "" where there is none.
	EventID string
	// Call is what was asked at the reservation, as its hold kept it.
	Call []byte
	// Answer is the body that was answered.
	Answer []byte
	// Late is the one figure that came after the end; nil = none.
	Late *Late
}

// Late is a figure that came after the end.
type Late struct {
	EventID     string
	Fingerprint []byte
	Answer      []byte
}

const columns = `tenant_id, reservation_id, reserved_at, outcome, estimated, fingerprint, own_mode, own_nanos, held_nanos, epoch,
	event_id, call, answer, late_event_id, late_fingerprint, late_answer`

const insertRow = `INSERT INTO reservations (tenant_id, reservation_id, reserved_at, outcome, estimated, fingerprint, own_mode, own_nanos,
	held_nanos, epoch, event_id, call, answer) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING`

// End records row unless the reservation has ended already, and appends event (nil = none) in the same transaction.
// It returns the row that holds: row itself and true, or the earlier one and false.
func (s *Store) End(ctx context.Context, row Row, event *outbox.Event) (Row, bool, error) {
	return s.decide(ctx, row, event, insertRow, row.Tenant, row.ReservationID, row.ReservedAt, string(row.Outcome), row.Estimated,
		nonNil(row.Fingerprint), string(row.OwnMode), int64(row.OwnNanos), int64(row.HeldNanos), row.Epoch, row.EventID, nonNil(row.Call), nonNil(row.Answer))
}

const settleExternal = `UPDATE reservations SET outcome = 'settled', estimated = $4, fingerprint = $5, own_mode = $6, own_nanos = $7,
	held_nanos = $8, epoch = $9, event_id = $10, answer = $11
	WHERE tenant_id = $1 AND reservation_id = $2 AND reserved_at = $3 AND outcome = 'external'`

// SettleExternal turns an External row into row, a Settled one, and appends event. If the row that holds is no longer
// External, or is of another hold, it is returned with false.
func (s *Store) SettleExternal(ctx context.Context, row Row, event outbox.Event) (Row, bool, error) {
	return s.decide(ctx, row, &event, settleExternal, row.Tenant, row.ReservationID, row.ReservedAt, row.Estimated, nonNil(row.Fingerprint),
		string(row.OwnMode), int64(row.OwnNanos), int64(row.HeldNanos), row.Epoch, row.EventID, nonNil(row.Answer))
}

const addLate = `UPDATE reservations SET late_event_id = $4, late_fingerprint = $5, late_answer = $6, late_at = clock_timestamp()
	WHERE tenant_id = $1 AND reservation_id = $2 AND reserved_at = $3 AND late_event_id IS NULL
	  AND (outcome IN ('expired', 'released') OR outcome = 'settled' AND estimated)`

// AddLate adds the one late figure to the row of an expired, released or estimated reservation, and appends event. If
// that row takes none (any more), it is returned as it is, with false.
func (s *Store) AddLate(ctx context.Context, row Row, late Late, event outbox.Event) (Row, bool, error) {
	row.Late = &late
	return s.decide(ctx, row, &event, addLate, row.Tenant, row.ReservationID, row.ReservedAt, late.EventID, nonNil(late.Fingerprint), nonNil(late.Answer))
}

// decide runs one statement that changes a row or none, appends the event if it changed one, and otherwise reads the
// row that holds. The statement locks the row, so the event's order among those of the row is its commit order.
func (s *Store) decide(ctx context.Context, row Row, event *outbox.Event, sql string, args ...any) (Row, bool, error) {
	fail := func(what string, err error) (Row, bool, error) {
		return Row{}, false, fmt.Errorf("pgstore: reservation %s of %s: %s: %w", row.ReservationID, row.Tenant, what, err)
	}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return fail("begin", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	tag, err := tx.Exec(ctx, sql, args...)
	if err != nil {
		return fail("write", err)
	}
	if tag.RowsAffected() == 0 {
		stored, err := scan(tx.QueryRow(ctx, selectRow, row.Tenant, row.ReservationID))
		if err != nil {
			return fail("read", err)
		}
		return stored, false, nil
	}
	if event != nil {
		if err := outbox.Append(ctx, tx, *event); err != nil {
			return fail("append event", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fail("commit", err)
	}
	return row, true, nil
}

const selectRow = "SELECT " + columns + " FROM reservations WHERE tenant_id = $1 AND reservation_id = $2"

// Get is the record of a reservation's end; false if it has not ended (or is unknown, or was pruned).
func (s *Store) Get(ctx context.Context, tenant, id string) (Row, bool, error) {
	row, err := scan(s.pool.QueryRow(ctx, selectRow, tenant, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return Row{}, false, nil
	}
	if err != nil {
		return Row{}, false, fmt.Errorf("pgstore: reservation %s of %s: read: %w", id, tenant, err)
	}
	return row, true, nil
}

func scan(r pgx.Row) (Row, error) {
	var row Row
	var outcome, mode string
	var own, held int64
	var lateID *string
	var lateFingerprint, lateAnswer []byte
	err := r.Scan(&row.Tenant, &row.ReservationID, &row.ReservedAt, &outcome, &row.Estimated, &row.Fingerprint, &mode, &own, &held,
		&row.Epoch, &row.EventID, &row.Call, &row.Answer, &lateID, &lateFingerprint, &lateAnswer)
	if err != nil {
		return Row{}, err
	}
	row.ReservedAt = row.ReservedAt.UTC()
	row.Outcome, row.OwnMode, row.OwnNanos, row.HeldNanos = Outcome(outcome), OwnMode(mode), money.Nano(own), money.Nano(held)
	if lateID != nil {
		row.Late = &Late{EventID: *lateID, Fingerprint: lateFingerprint, Answer: lateAnswer}
	}
	return row, nil
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func hasPoolSize(url string) bool { return strings.Contains(url, "pool_max_conns") }
