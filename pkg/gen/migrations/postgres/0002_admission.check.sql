-- Each statement lists what is wrong, or says true.

-- A reservation ends once per tenant: settle and expiry are decided by this key.
SELECT array_agg(a.attname::text ORDER BY k.ord) = ARRAY['tenant_id', 'reservation_id']
  FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, ord)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
 WHERE i.indrelid = 'reservations'::regclass AND i.indisprimary;

-- An acknowledged settle survives a crash: these tables are not unlogged.
SELECT relname FROM pg_class WHERE relname IN ('reservations', 'executions', 'redis_epoch', 'tenant_states') AND relpersistence <> 'p';

-- Nothing after an end, a late figure included, may be half there.
SELECT tenant_id, reservation_id FROM reservations WHERE num_nulls(late_event_id, late_fingerprint, late_answer, late_at) NOT IN (0, 4);

-- At most one epoch.
SELECT count(*) <= 1 FROM redis_epoch;
