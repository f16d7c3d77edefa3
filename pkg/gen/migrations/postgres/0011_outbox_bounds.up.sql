-- What the table takes, a record of usage.events.v1 (1 MiB) holds. A row that no broker would ever take was committed, which is
-- the promise that it will be published, and then parked; one that no memory holds would have ended the relay again and again.
-- Each column has a bound of its own, so that domains can say it (0006) and no CHECK of the table need be read for every insert:
-- together they are below 1 MiB. And a header has a name.
--
-- NOT VALID: rows that are there already are published as they are, or parked; nothing is read or rewritten.
CREATE DOMAIN outbox_payload AS bytea;
CREATE DOMAIN outbox_text AS text;

ALTER TABLE outbox
    ALTER payload TYPE outbox_payload, ALTER topic TYPE outbox_text, ALTER content_type TYPE outbox_text, ALTER signature TYPE outbox_text;

ALTER DOMAIN outbox_payload ADD CONSTRAINT outbox_payload_bytes CHECK (octet_length(VALUE) <= 1000000) NOT VALID;
ALTER DOMAIN outbox_text ADD CONSTRAINT outbox_text_bytes CHECK (octet_length(VALUE) <= 1000) NOT VALID;
ALTER DOMAIN outbox_name ADD CONSTRAINT outbox_name_bytes CHECK (octet_length(VALUE) <= 1000) NOT VALID;
ALTER DOMAIN outbox_headers ADD CONSTRAINT outbox_headers_bytes CHECK (octet_length(VALUE::text) <= 16000) NOT VALID;
ALTER DOMAIN outbox_headers ADD CONSTRAINT outbox_headers_named CHECK (NOT VALUE ? '') NOT VALID;
