-- What a loss of Redis is seen by and recovered with (design.md 4.4, ADR 0009). Reached through pkg/pgstore only.

ALTER TABLE redis_epoch
    -- While recovering, nothing is admitted: the counters of this epoch are being made from the journal.
    ADD COLUMN state           text        NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'recovering')),
    -- master_replid of every master that belongs to this epoch. Redis changes it at each restart and failover, so a
    -- master with another one may have lost writes. Empty: not known yet.
    ADD COLUMN replication_ids text[]      NOT NULL DEFAULT '{}',
    -- Last time that a replica of admission read this row in order to admit by it; rewritten at most once a second.
    ADD COLUMN active_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The epoch that was lost, when this one took its place, and its active_at then. NULL: this is the first one.
    ADD COLUMN lost            bigint,
    ADD COLUMN raised_at       timestamptz,
    ADD COLUMN lost_active_at  timestamptz,
    -- The barrier markers are in the outbox.
    ADD COLUMN barrier_at      timestamptz,
    ADD COLUMN recovered_at    timestamptz,
    -- A random text that is in Redis too while nobody may write to it: a Redis that comes back with it is whole.
    ADD COLUMN seal            text        CHECK (seal <> ''),
    ADD CHECK (num_nulls(lost, raised_at, lost_active_at) IN (0, 3)),
    ADD CHECK (raised_at IS NOT NULL OR state = 'ready' AND barrier_at IS NULL AND recovered_at IS NULL),
    ADD CHECK (raised_at IS NULL OR (state = 'ready') = (recovered_at IS NOT NULL)),
    ADD CHECK (recovered_at IS NULL OR barrier_at IS NOT NULL),
    ADD CHECK (seal IS NULL OR state = 'ready'),
    ADD CHECK (lost < epoch);

-- Rewritten once a second for years: with room in the page the old versions go without a vacuum.
ALTER TABLE redis_epoch SET (fillfactor = 10);
