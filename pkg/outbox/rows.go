package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Rows are rows of a composite type as one parameter: `unnest($1::type[])` are the rows. Postgres' binary format is written
// here rather than by pgx, column by column in the order of the type: an array for each of 21 columns, encoded member by
// member, took three times as long in this process and 2 µs a row longer in Postgres.
//
// A connection must have been told of the type (KnowRows). The zero Rows are empty. Begin, the columns, End, and again.
type Rows struct {
	count, begin int
	body         []byte
}

// Len is the number of rows.
func (r *Rows) Len() int { return r.count }

// Grow makes room for so many further bytes of values, in so many rows of so many columns, so that nothing is moved.
func (r *Rows) Grow(rows, columns, bytes int) {
	r.body = slices.Grow(r.body, bytes+rows*(8+8*columns))
}

// Begin starts a row of so many columns.
func (r *Rows) Begin(columns int) {
	r.count, r.begin = r.count+1, len(r.body)
	r.body = binary.BigEndian.AppendUint32(r.body, 0) // its length: see End
	r.body = binary.BigEndian.AppendUint32(r.body, uint32(columns))
}

// End ends the row.
func (r *Rows) End() {
	binary.BigEndian.PutUint32(r.body[r.begin:], uint32(len(r.body)-r.begin-4))
}

// column is what precedes a value: its type and its length.
func (r *Rows) column(oid uint32, length int) {
	r.body = binary.BigEndian.AppendUint32(r.body, oid)
	r.body = binary.BigEndian.AppendUint32(r.body, uint32(length))
}

// Text adds a column of the type text.
func (r *Rows) Text(s string) {
	r.column(pgtype.TextOID, len(s))
	r.body = append(r.body, s...)
}

// OptionalText is Text, and NULL for "".
func (r *Rows) OptionalText(s string) {
	if s == "" {
		r.null(pgtype.TextOID)
		return
	}
	r.Text(s)
}

// Bytea adds a column of the type bytea; nil is empty, not NULL.
func (r *Rows) Bytea(b []byte) {
	r.column(pgtype.ByteaOID, len(b))
	r.body = append(r.body, b...)
}

// Bigint adds a column of the type bigint.
func (r *Rows) Bigint(n int64) {
	r.column(pgtype.Int8OID, 8)
	r.body = binary.BigEndian.AppendUint64(r.body, uint64(n))
}

// OptionalInteger adds a column of the type integer; nil is NULL.
func (r *Rows) OptionalInteger(n *int32) {
	if n == nil {
		r.null(pgtype.Int4OID)
		return
	}
	r.column(pgtype.Int4OID, 4)
	r.body = binary.BigEndian.AppendUint32(r.body, uint32(*n))
}

// Boolean adds a column of the type boolean.
func (r *Rows) Boolean(b bool) {
	r.column(pgtype.BoolOID, 1)
	if b {
		r.body = append(r.body, 1)
		return
	}
	r.body = append(r.body, 0)
}

// postgresEpoch is 2000-01-01, from which Postgres counts, in microseconds of Unix time.
const postgresEpoch = 946_684_800_000_000

// Timestamptz adds a column of the type timestamp with time zone, to the microsecond.
func (r *Rows) Timestamptz(t time.Time) {
	r.column(pgtype.TimestamptzOID, 8)
	r.body = binary.BigEndian.AppendUint64(r.body, uint64(t.UnixMicro()-postgresEpoch))
}

// jsonb adds a column of the type jsonb, given what appends its text.
func (r *Rows) jsonb(add func([]byte) []byte) {
	r.column(pgtype.JSONBOID, 0)
	from := len(r.body)
	r.body = add(append(r.body, 1)) // the format's version
	binary.BigEndian.PutUint32(r.body[from-4:], uint32(len(r.body)-from))
}

func (r *Rows) null(oid uint32) {
	r.column(oid, -1)
}

// KnowRows tells a new connection of composite types, so that Rows can be parameters of its statements. False, and nothing
// is told, if one of them is not there (yet).
func KnowRows(ctx context.Context, conn *pgx.Conn, types ...string) (bool, error) {
	for _, name := range types {
		var oid, array *uint32
		err := conn.QueryRow(ctx, "SELECT t::oid, (SELECT typarray FROM pg_type WHERE oid = t) FROM to_regtype($1) AS t", name).Scan(&oid, &array)
		if err != nil {
			return false, fmt.Errorf("outbox: type %s: %w", name, err)
		}
		if oid == nil || array == nil {
			return false, nil
		}
		conn.TypeMap().RegisterType(&pgtype.Type{Name: name + "[]", OID: *array, Codec: rowsCodec{element: *oid}})
	}
	return true, nil
}

// rowsCodec encodes Rows as an array of the type element. Decoding is never asked for.
type rowsCodec struct {
	pgtype.ByteaCodec
	element uint32
}

func (rowsCodec) FormatSupported(format int16) bool { return format == pgtype.BinaryFormatCode }
func (rowsCodec) PreferredFormat() int16            { return pgtype.BinaryFormatCode }

func (c rowsCodec) PlanEncode(_ *pgtype.Map, _ uint32, _ int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*Rows); !ok {
		return nil
	}
	return c
}

// Encode appends the array: one dimension, no NULL among its members, counted from 1.
func (c rowsCodec) Encode(value any, buf []byte) ([]byte, error) {
	r, ok := value.(*Rows)
	if !ok {
		return nil, fmt.Errorf("outbox: %T as rows", value)
	}
	for _, n := range [...]uint32{1, 0, c.element, uint32(r.count), 1} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	return append(buf, r.body...), nil
}
