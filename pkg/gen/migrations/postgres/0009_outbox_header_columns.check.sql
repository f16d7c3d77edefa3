-- Each statement lists what is wrong, or says true.

-- The columns that a writer names are those of the table, by name and type, whatever domain says of them there.
SELECT a.attname FROM pg_attribute a WHERE a.attrelid = 'outbox_message'::regclass AND NOT EXISTS (
    SELECT FROM pg_attribute b LEFT JOIN pg_type d ON d.oid = b.atttypid AND d.typtype = 'd'
     WHERE b.attrelid = 'outbox'::regclass AND b.attname = a.attname AND coalesce(d.typbasetype, b.atttypid) = a.atttypid);

-- Nobody has to give headers, content type or signature.
SELECT attname FROM pg_attribute WHERE attrelid = 'outbox'::regclass AND attname IN ('headers', 'content_type', 'signature') AND attnotnull;
