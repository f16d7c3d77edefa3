-- Each statement lists what is wrong, or says true.

-- What a CHECK said of one column is said by its domain, which was proved of the rows that were there.
SELECT want.attname FROM (VALUES ('tenant_id', 'reservation_name'), ('reservation_id', 'reservation_name'), ('own_nanos', 'reservation_nanos'),
        ('held_nanos', 'reservation_nanos'), ('outcome', 'reservation_outcome'), ('own_mode', 'reservation_own_mode')) AS want (attname, domain)
 WHERE NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_constraint c ON c.contypid = a.atttypid AND c.convalidated
        WHERE a.attrelid = 'reservations'::regclass AND a.attname = want.attname AND a.atttypid = domain::regtype);

-- No CHECK is left that Postgres would read for each statement.
SELECT conname FROM pg_constraint WHERE conrelid = 'reservations'::regclass AND contype = 'c';
