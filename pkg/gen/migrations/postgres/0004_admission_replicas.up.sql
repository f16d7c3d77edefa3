-- What the replicas of admission say of themselves, so that a recovery of Redis waits for each of them and no replica takes
-- a Redis of its own for everybody's (design.md 4.4, ADR 0009). Reached through pkg/pgstore only. One row per process,
-- rewritten once a second; rows of the last day stay.
CREATE TABLE admission_replicas (
    -- Drawn by each process when it starts.
    replica     text        PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The epoch whose Redis it found when it last looked; 0: none, or another Redis.
    sees        bigint      NOT NULL CHECK (sees >= 0),
    -- The last epoch in whose recovery it has shown the holds that it remembers.
    shown       bigint      NOT NULL CHECK (shown >= 0),
    -- From a decision to admit to the end of the longest lease that it may give.
    lease_reach interval    NOT NULL CHECK (lease_reach >= '0')
) WITH (fillfactor = 50);

-- The master_replid of the Redis in which a loss was seen: the counters are made anew there.
ALTER TABLE redis_epoch ADD COLUMN raised_in text[] NOT NULL DEFAULT '{}';
