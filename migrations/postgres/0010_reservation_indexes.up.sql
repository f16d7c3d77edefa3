-- Two of three parts of what the indexes of reservations cost each settle. Old rows are found by a walk through the table
-- (Store.Prune) instead of by an index of their age, which was written at every end to be read once a minute. And the key
-- has the id first: it nearly always decides, while all ids of a busy tenant have to be told from one another. What is unique
-- stays the same. The key's index is built anew: no settle is answered meanwhile.
DROP INDEX reservations_recorded_at;
ALTER TABLE reservations DROP CONSTRAINT reservations_pkey, ADD PRIMARY KEY (reservation_id, tenant_id);
