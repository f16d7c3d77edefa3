-- The two headers that usage events have are columns of their own: to read a JSON object, to store it and to prove what is in it
-- was a seventh of what Postgres does for a settle. Other headers stay where they were; NULL is none of them now. (A relay from
-- before this migration stops at such a row rather than to publish it without its signature.)
ALTER TABLE outbox ADD COLUMN content_type text, ADD COLUMN signature text, ALTER headers DROP NOT NULL;

-- Takes the place of outbox_event (0005), which writers that are still running go on with.
CREATE TYPE outbox_message AS (
    id text, aggregatetype text, aggregateid text, type text, payload bytea, headers jsonb, topic text, partition integer,
    content_type text, signature text
);
