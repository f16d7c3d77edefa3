-- Each statement lists what is wrong, or says true.

SELECT relname FROM pg_class WHERE relname = 'admission_replicas' AND relpersistence <> 'p';

-- Once a second and no index but the key's: every rewrite can stay in its page.
SELECT count(*) = 1 FROM pg_index WHERE indrelid = 'admission_replicas'::regclass;

SELECT count(*) = 1 FROM pg_attribute WHERE attrelid = 'redis_epoch'::regclass AND attname = 'raised_in';
