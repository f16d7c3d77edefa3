-- Each statement lists what is wrong, or says true.

-- The columns that a writer names, with the types of the tables, in their order.
SELECT t.name, a.attnum, a.attname FROM (VALUES ('outbox_event', 'outbox'), ('reservation_end', 'reservations')) AS t(name, of)
  JOIN pg_attribute a ON a.attrelid = t.name::regclass
 WHERE NOT EXISTS (SELECT FROM pg_attribute b WHERE b.attrelid = t.of::regclass AND b.attnum = a.attnum AND b.attname = a.attname AND b.atttypid = a.atttypid);
