-- Each statement lists what is wrong, or says true.

-- Every column that a writer names has a domain, in the table and in its slots.
SELECT relid, attname FROM (VALUES ('payload', 'outbox_payload'), ('topic', 'outbox_text'), ('content_type', 'outbox_text'),
        ('signature', 'outbox_text')) AS want (attname, domain)
  CROSS JOIN (SELECT 'outbox'::regclass AS relid UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox'::regclass) AS tables
 WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relid AND a.attname = want.attname AND a.atttypid = domain::regtype);

-- The domains say the bounds.
SELECT name FROM unnest(ARRAY['outbox_payload_bytes', 'outbox_text_bytes', 'outbox_name_bytes', 'outbox_headers_bytes', 'outbox_headers_named']) AS name
 WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conname = name AND contypid <> 0);
