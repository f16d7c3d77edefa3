-- Each statement lists what is wrong, or says true.

-- What a recovery needs is there.
SELECT missing FROM unnest(ARRAY['state', 'replication_ids', 'active_at', 'lost', 'raised_at', 'lost_active_at', 'barrier_at', 'recovered_at', 'seal']) AS missing
 WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'redis_epoch'::regclass AND attname = missing);

-- An epoch from before this migration goes on as it was.
SELECT count(*) = 0 FROM redis_epoch WHERE state <> 'ready' AND raised_at IS NULL;

-- Once a second and never an index: every rewrite can stay in its page.
SELECT count(*) = 1 FROM pg_index WHERE indrelid = 'redis_epoch'::regclass;
