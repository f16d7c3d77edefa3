-- Each statement lists what is wrong, or says true.

-- A reservation ends once per tenant: settle and expiry are decided by this key, whose name pkg/pgstore's log lines have.
SELECT array_agg(a.attname::text ORDER BY k.ord) = ARRAY['reservation_id', 'tenant_id']
  FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, ord)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
 WHERE i.indexrelid = 'reservations_pkey'::regclass AND i.indrelid = 'reservations'::regclass AND i.indisprimary;

-- It is the only one.
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'reservations'::regclass AND NOT indisprimary;
