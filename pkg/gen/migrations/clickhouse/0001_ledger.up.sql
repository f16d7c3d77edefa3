-- The ledger: one immutable row per journal entry (design.md 6.5 and 12).
--
-- Plain MergeTree, exact under a plain SUM: the sink inserts each journal range once, as one block per month, with a
-- deduplication token. The window must hold 2 hashes x months per insert x inserts in the longest outage: 10,000 is
-- hours of one insert a second. fsync, because the Kafka offset is committed as soon as an insert is acknowledged.
CREATE TABLE IF NOT EXISTS agent_cost_ledger
(
    id                 String CODEC(ZSTD(1)),
    timestamp          DateTime64(9, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    tenant_id          LowCardinality(String),
    root_execution_id  String CODEC(ZSTD(1)),
    parent_agent_id    LowCardinality(String),
    agent_id           LowCardinality(String),
    provider           LowCardinality(String),
    model_or_resource  LowCardinality(String),
    input_tokens       Int64 CODEC(T64, ZSTD(1)),
    output_tokens      Int64 CODEC(T64, ZSTD(1)),
    raw_cost_usd       Nullable(Decimal(38, 18)) COMMENT 'list price; NULL is unpriced, never zero',
    markup_cost_usd    Nullable(Decimal(38, 18)) COMMENT 'what the tenant is billed',
    cost_center        LowCardinality(String),
    status             LowCardinality(String),
    error_code         LowCardinality(String),
    entry_kind         LowCardinality(String),
    depth              Int32,
    meters             Map(LowCardinality(String), Decimal(38, 9)) COMMENT 'quantity per meter',
    costs              Map(LowCardinality(String), Decimal(38, 18)) COMMENT 'raw cost per meter',
    price_version      LowCardinality(String),
    markup_percent     Decimal(18, 9),
    reservation_id     String CODEC(ZSTD(1)),
    source             LowCardinality(String),
    event_id           String CODEC(ZSTD(1)),
    response_id        String CODEC(ZSTD(1)),
    trace_id           String CODEC(ZSTD(1)),
    span_id            String CODEC(ZSTD(1)),
    flags              Array(LowCardinality(String)),
    recorded_at        DateTime64(9, 'UTC') COMMENT 'timestamp of the source record at the broker' CODEC(DoubleDelta, ZSTD(1)),
    posted_period      UInt32 COMMENT 'YYYYMM it is billed in',
    kafka_topic        LowCardinality(String) COMMENT 'position in the journal',
    kafka_partition    Int32,
    kafka_offset       Int64 CODEC(Delta, ZSTD(1)),
    service_tier       LowCardinality(String),
    reverses_id        String CODEC(ZSTD(1)),
    own_nanos          Int64 CODEC(T64, ZSTD(1)),
    external_nanos     Int64 CODEC(T64, ZSTD(1)),
    day                UInt32 COMMENT 'YYYYMMDD in the tenant''s calendar',

    INDEX root_execution_bloom root_execution_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX agent_bloom agent_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX event_bloom event_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX id_bloom id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX reservation_bloom reservation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX offset_minmax kafka_offset TYPE minmax GRANULARITY 1,

    PROJECTION by_cost_center
    (
        SELECT tenant_id, cost_center, timestamp, posted_period, agent_id, provider, model_or_resource, entry_kind, flags,
               input_tokens, output_tokens, raw_cost_usd, markup_cost_usd, meters
        ORDER BY tenant_id, cost_center, timestamp
    ),
    PROJECTION by_root_execution
    (
        SELECT tenant_id, root_execution_id, timestamp, parent_agent_id, agent_id, depth, entry_kind, flags,
               input_tokens, output_tokens, raw_cost_usd, markup_cost_usd
        ORDER BY tenant_id, root_execution_id, timestamp
    )
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(timestamp)
ORDER BY (tenant_id, timestamp, id)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The bill, month by month. calls, unpriced and estimated count a reversal as -1. Safe under a plain SUM: no row stands
-- for another. A group of unpriced rows alone has NULL costs.
CREATE VIEW IF NOT EXISTS bill AS
SELECT
    tenant_id,
    posted_period AS month,
    cost_center,
    agent_id,
    provider,
    model_or_resource AS model,
    sum(l.raw_cost_usd) AS raw_cost_usd,
    sum(l.markup_cost_usd) AS billed_cost_usd,
    sum(l.input_tokens) AS input_tokens,
    sum(l.output_tokens) AS output_tokens,
    sumMap(l.meters) AS meters,
    count() AS entries,
    sum(multiIf(entry_kind = 'REVERSAL', -1, entry_kind IN ('USAGE', 'UNSETTLED'), 1, 0)) AS calls,
    sum(if(has(flags, 'unpriced'), if(entry_kind = 'REVERSAL', -1, 1), 0)) AS unpriced,
    sum(if(has(flags, 'estimated'), if(entry_kind = 'REVERSAL', -1, 1), 0)) AS estimated
FROM agent_cost_ledger AS l
GROUP BY tenant_id, month, cost_center, agent_id, provider, model;
