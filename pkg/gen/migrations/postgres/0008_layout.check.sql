-- Each statement lists what is wrong, or says true.

SELECT missing FROM unnest(ARRAY['layout', 'masters']) AS missing
 WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'redis_epoch'::regclass AND attname = missing);

-- A build from before this migration reads this column before it admits anything.
SELECT count(*) = 0 FROM pg_attribute WHERE attrelid = 'redis_epoch'::regclass AND attname = 'replication_ids';

-- What is in Redis was laid out before.
SELECT count(*) = 0 FROM redis_epoch WHERE layout <> 0;
