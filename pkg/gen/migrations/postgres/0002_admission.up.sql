-- Admission's own state: what decides between settle, release and expiry, for ever, and what outlives Redis.
-- Reached through pkg/pgstore only.

-- One row per reservation that ended. Unique by (tenant, reservation): the lasting record of idempotency.
CREATE TABLE reservations (
    tenant_id      text        NOT NULL CHECK (tenant_id <> ''),
    reservation_id text        NOT NULL CHECK (reservation_id <> ''),
    -- Redis' clock at the reservation. A later hold under the same id has another one, which is how it is told apart.
    reserved_at    timestamptz NOT NULL,
    outcome        text        NOT NULL CHECK (outcome IN ('settled', 'released', 'expired', 'external')),
    -- Settled at the estimate because the usage is missing: one final figure may follow.
    estimated      boolean     NOT NULL DEFAULT false,
    -- SHA-256 of what was asked: the same again is answered again, other content is a conflict.
    fingerprint    bytea       NOT NULL,
    -- Who adds own_nanos to Redis: 'direct' the settle script, 'journal' the journal reader, '' nobody.
    own_mode       text        NOT NULL CHECK (own_mode IN ('', 'direct', 'journal')),
    own_nanos      bigint      NOT NULL CHECK (own_nanos >= 0 AND own_nanos < 9007199254740992),
    held_nanos     bigint      NOT NULL CHECK (held_nanos >= 0 AND held_nanos < 9007199254740992),
    -- Redis epoch of the hold.
    epoch          bigint      NOT NULL,
    -- The usage event that was appended to the outbox in the same transaction; '' where there is none.
    event_id       text        NOT NULL,
    -- What was asked at the reservation (provider, model, estimate, lineage): a late figure is priced and attributed by it.
    call           bytea       NOT NULL,
    -- The body that was answered, to the byte.
    answer         bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The one late figure after an expiry, a release or an estimate. All or none.
    late_event_id    text,
    late_fingerprint bytea,
    late_answer      bytea,
    late_at          timestamptz,
    PRIMARY KEY (tenant_id, reservation_id),
    CHECK (num_nulls(late_event_id, late_fingerprint, late_answer, late_at) IN (0, 4)),
    CHECK ((outcome IN ('settled', 'expired')) = (event_id <> ''))
);

-- Rows leave by age, in small steps (Store.Prune).
CREATE INDEX reservations_recorded_at ON reservations (recorded_at);

-- One row per root execution: its limits, stored once and only ever lowered. NULL is no limit.
CREATE TABLE executions (
    tenant_id         text        NOT NULL CHECK (tenant_id <> ''),
    root_execution_id text        NOT NULL CHECK (root_execution_id <> ''),
    agent_id          text        NOT NULL,
    cost_center       text        NOT NULL,
    max_cost_nanos    bigint      CHECK (max_cost_nanos > 0 AND max_cost_nanos < 9007199254740992),
    max_depth         integer     CHECK (max_depth > 0),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at         timestamptz,
    PRIMARY KEY (tenant_id, root_execution_id)
);

CREATE INDEX executions_created_at ON executions (created_at);

-- The epoch of the Redis that holds the counters. One row: one Redis until there are shards.
CREATE TABLE redis_epoch (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch      bigint      NOT NULL CHECK (epoch > 0 AND epoch < 4503599627370496),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which tenants have a state key in Redis, per epoch: a key that is gone while its row says ready was lost, and a lost
-- key is never replaced by a fresh budget.
CREATE TABLE tenant_states (
    tenant_id  text        NOT NULL CHECK (tenant_id <> ''),
    epoch      bigint      NOT NULL,
    ready      boolean     NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, epoch)
);
