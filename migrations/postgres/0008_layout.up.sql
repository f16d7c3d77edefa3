-- A Redis that another build laid out is noticed (ADR 0015). Reached through pkg/pgstore only.

ALTER TABLE redis_epoch
    -- Which layout the counters of this epoch have in Redis (budgetstore.Layout). 0: that of a build from before there was a
    -- number. It changes together with the epoch only.
    ADD COLUMN layout integer NOT NULL DEFAULT 0 CHECK (layout >= 0);

-- Such a build does not know that it must not serve from another layout, nor that it must not lead a recovery into it. It
-- cannot read this row any more, and what it has read it serves by for 2 s.
ALTER TABLE redis_epoch RENAME COLUMN replication_ids TO masters;
