-- Rows on their way into a statement, many in one parameter: unnest($1::outbox_event[]). A statement that changes many rows
-- of its own at once appends an event for each (outbox.List), in the order of the columns of outbox. A type is never changed,
-- a new one takes its place: a running writer knows it as it was when it connected.
CREATE TYPE outbox_event AS (
    id text, aggregatetype text, aggregateid text, type text, payload bytea, headers jsonb, topic text, partition integer
);

-- How a reservation ended, as pkg/pgstore writes it.
CREATE TYPE reservation_end AS (
    tenant_id text, reservation_id text, reserved_at timestamptz, outcome text, estimated boolean, fingerprint bytea,
    own_mode text, own_nanos bigint, held_nanos bigint, epoch bigint, event_id text, call bytea, answer bytea
);
