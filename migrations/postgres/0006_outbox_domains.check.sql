-- Each statement lists what is wrong, or says true.

-- What a CHECK said of one column is said by its domain, in the table and in its slots.
SELECT relid, attname FROM (VALUES ('id', 'outbox_name'), ('aggregatetype', 'outbox_name'), ('aggregateid', 'outbox_name'), ('type', 'outbox_name'),
        ('headers', 'outbox_headers'), ('partition', 'outbox_partition')) AS want (attname, domain)
  CROSS JOIN (SELECT 'outbox'::regclass AS relid UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox'::regclass) AS tables
 WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relid AND a.attname = want.attname AND a.atttypid = domain::regtype);

-- The domains say something, and it was proved of the rows that were there.
SELECT domain FROM unnest(ARRAY['outbox_name', 'outbox_headers', 'outbox_partition']) AS domain
 WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE contypid = domain::regtype AND convalidated);
