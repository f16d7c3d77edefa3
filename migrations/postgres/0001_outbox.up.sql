-- The outbox: what a transaction wants told to Kafka, committed with the transaction itself. Contract: docs/outbox.md.
--
-- Rows live in four slots (list partitions). Writers write to the current slot, the relay empties the others with
-- TRUNCATE once every row in them is acknowledged, so nothing is ever deleted row by row and nothing bloats.
-- Which slot a row is in has no meaning: order is (tick, seq), and no proof below depends on a writer's choice.

CREATE TABLE outbox_slot (
    only_row boolean  PRIMARY KEY DEFAULT true CHECK (only_row),
    current  smallint NOT NULL CHECK (current BETWEEN 0 AND 3)
);
INSERT INTO outbox_slot (current) VALUES (0);

-- plpgsql rather than sql: its plan is cached per session, which halves the cost per row.
CREATE FUNCTION outbox_current_slot() RETURNS smallint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT current FROM outbox_slot);
END $$;

CREATE TABLE outbox (
    -- Debezium's outbox columns. id names the event (readers deduplicate by it), aggregateid is the record key.
    id            text     NOT NULL CHECK (id <> ''),
    aggregatetype text     NOT NULL CHECK (aggregatetype <> ''),
    aggregateid   text     NOT NULL CHECK (aggregateid <> ''),
    type          text     NOT NULL CHECK (type <> ''),
    -- bytea, not jsonb: signatures cover the exact bytes.
    payload       bytea    NOT NULL,
    -- Record headers, {"name": "text"}; the header id is always the column id.
    headers       jsonb    NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(headers) = 'object'
                           AND NOT jsonb_path_exists(headers, 'strict $.* ? (@.type() <> "string")')),
    -- NULL: usage.events.v1.
    topic         text,
    -- NULL: the partition that aggregateid hashes to. A number is for events about a partition itself.
    partition     integer  CHECK (partition >= 0),
    -- The rest is filled in by defaults; writers leave it alone.
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid           xid8     NOT NULL DEFAULT pg_current_xact_id(),
    seq           bigint   GENERATED ALWAYS AS IDENTITY (CACHE 1),
    slot          smallint NOT NULL DEFAULT outbox_current_slot(),
    PRIMARY KEY (seq, slot)
) PARTITION BY LIST (slot);

CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES IN (0);
CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN (1);
CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN (2);
CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES IN (3);

-- "What was not visible in the last tick" is a range of this index plus a few single transactions.
CREATE INDEX outbox_xid ON outbox (xid);

-- How far the relay is. A row is published when it is visible in published, or visible in draining with seq <= position.
CREATE TABLE outbox_cursor (
    only_row          boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    -- Of the cluster whose transaction numbers the snapshots speak of; see outbox_adopt.
    system_identifier bigint      NOT NULL,
    tick              bigint      NOT NULL,
    published         pg_snapshot NOT NULL,
    draining          pg_snapshot,
    position          bigint      NOT NULL DEFAULT 0,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 10);

-- Events that no broker would ever take. They are out of the stream, kept whole, and counted by a metric that alerts.
CREATE TABLE outbox_parked (
    seq           bigint      PRIMARY KEY,
    id            text        NOT NULL,
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       bytea       NOT NULL,
    headers       jsonb       NOT NULL,
    topic         text,
    partition     integer,
    created_at    timestamptz NOT NULL,
    reason        text        NOT NULL,
    parked_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- After a dump was restored into another cluster, the transaction numbers in outbox and outbox_cursor mean nothing.
-- The relay refuses to run until this was called; then everything left in the table is published (again), in seq order.
CREATE FUNCTION outbox_adopt() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
BEGIN
    LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE;
    UPDATE outbox SET xid = pg_current_xact_id();
    GET DIAGNOSTICS rows = ROW_COUNT;
    DELETE FROM outbox_cursor;
    RETURN rows;
END $$;
