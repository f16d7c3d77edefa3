-- What one column of the outbox may hold is said by its type instead of by a CHECK of the table. Postgres reads every CHECK
-- of a table anew, as text, for each statement that inserts; a domain's once a connection. The same values are refused as
-- before, whoever writes them, and a row is read as text, jsonb and integer as before.
--
-- A domain gets its constraint after the columns got their type: so the tables are read once to prove it, and not rewritten.
CREATE DOMAIN outbox_name AS text;
CREATE DOMAIN outbox_headers AS jsonb;
CREATE DOMAIN outbox_partition AS integer;

ALTER TABLE outbox
    DROP CONSTRAINT outbox_id_check, DROP CONSTRAINT outbox_aggregatetype_check, DROP CONSTRAINT outbox_aggregateid_check,
    DROP CONSTRAINT outbox_type_check, DROP CONSTRAINT outbox_headers_check, DROP CONSTRAINT outbox_partition_check,
    ALTER id TYPE outbox_name, ALTER aggregatetype TYPE outbox_name, ALTER aggregateid TYPE outbox_name, ALTER type TYPE outbox_name,
    ALTER headers TYPE outbox_headers, ALTER partition TYPE outbox_partition;

ALTER DOMAIN outbox_name ADD CHECK (VALUE <> '');
-- {"name": "text"}
ALTER DOMAIN outbox_headers ADD CHECK (jsonb_typeof(VALUE) = 'object' AND NOT jsonb_path_exists(VALUE, 'strict $.* ? (@.type() <> "string")'));
ALTER DOMAIN outbox_partition ADD CHECK (VALUE >= 0);
