-- Each statement lists what is wrong, or says true.

-- Four slots, numbered as the relay expects.
SELECT array_agg(inhrelid::regclass::text ORDER BY inhrelid::regclass::text) = ARRAY['outbox_0', 'outbox_1', 'outbox_2', 'outbox_3']
  FROM pg_inherits WHERE inhparent = 'outbox'::regclass;

-- A sequence that hands out blocks per session would break the order per key.
SELECT seqcache = 1 FROM pg_sequence WHERE seqrelid = pg_get_serial_sequence('outbox', 'seq')::regclass;

-- Debezium's columns, by name.
SELECT missing FROM unnest(ARRAY['id', 'aggregatetype', 'aggregateid', 'type', 'payload']) AS missing
 WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'outbox'::regclass AND attname = missing);

-- Exactly one current slot.
SELECT count(*) = 1 FROM outbox_slot;

-- Every slot has both indexes: the relay's queries are planned for them.
SELECT c.inhrelid::regclass FROM pg_inherits c WHERE c.inhparent = 'outbox'::regclass
   AND (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.inhrelid) <> 2;
