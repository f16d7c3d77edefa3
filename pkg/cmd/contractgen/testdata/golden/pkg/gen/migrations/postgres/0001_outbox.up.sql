CREATE TABLE outbox (id bigint);
