package pgstore

import (
	"context"
	"errors"
	"fmt"
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

// The modes (ADR 0001).
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

const (
	// ownColumns are those that an end fills in.
	ownColumns = `tenant_id, reservation_id, reserved_at, outcome, estimated, fingerprint, own_mode, own_nanos, held_nanos, epoch,
	event_id, call, answer`
	columns = ownColumns + ", late_event_id, late_fingerprint, late_answer"
)

// End records row unless the reservation, or a later one of the same id, has ended already, and appends event (nil = none)
// in the same transaction. The row of one that was reserved earlier is replaced, unless row is External. It returns the row that holds: row itself
// and true, or the first one and false. An amount that is OwnDirect needs the epoch of its hold to be the one of now:
// ErrEpochRaised.
func (s *Store) End(ctx context.Context, row Row, event *outbox.Event) (Row, bool, error) {
	return s.decide(ctx, change{kind: kindEnd, row: row, event: event})
}

// SettleExternal turns an External row into row, a Settled one, and appends event. If the row that holds is no longer
// External, or is of another hold, it is returned with false.
func (s *Store) SettleExternal(ctx context.Context, row Row, event outbox.Event) (Row, bool, error) {
	return s.decide(ctx, change{kind: kindExternal, row: row, event: &event})
}

// AddLate adds the one late figure to the row of an expired, released or estimated reservation, and appends event. If
// that row takes none (any more), it is returned as it is, with false.
func (s *Store) AddLate(ctx context.Context, row Row, late Late, event outbox.Event) (Row, bool, error) {
	figure := row // the statement finds the figure where an end has its own
	figure.EventID, figure.Fingerprint, figure.Answer = late.EventID, late.Fingerprint, late.Answer
	stored, done, err := s.decide(ctx, change{kind: kindLate, row: figure, event: &event})
	if !done {
		return stored, false, err
	}
	row.Late = &late
	return row, true, nil
}

const selectRow = "SELECT " + columns + " FROM reservations WHERE tenant_id = $1 AND reservation_id = $2"

// Get is the record of the end of the latest reservation of an id that has ended; false if none has (or it was pruned).
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
