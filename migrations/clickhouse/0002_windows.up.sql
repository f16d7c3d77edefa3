-- Window totals: each row replaces the one of a lower version with the same key. Read budget_windows_latest: it is right
-- with merges stopped, too.
CREATE TABLE IF NOT EXISTS budget_windows
(
    tenant_id          LowCardinality(String),
    scope_kind         LowCardinality(String) COMMENT 'TENANT, EXECUTION',
    scope_id           String,
    kind               LowCardinality(String) COMMENT 'MINUTE, HOUR, DAY, MONTH, EXECUTION',
    window             Int64 COMMENT 'MINUTE, HOUR: Unix seconds; DAY: YYYYMMDD; MONTH: YYYYMM; EXECUTION: 0',
    version            Int64 COMMENT 'journal offset of the last folded entry + 1',
    generation         Int64,
    own_nanos          Int64,
    external_nanos     Int64,
    raw_cost_usd       Decimal(38, 18),
    billed_cost_usd    Decimal(38, 18),
    input_tokens       Int64,
    output_tokens      Int64,
    entries            Int64,
    unpriced_entries   Int64,
    estimated_entries  Int64,
    latest_event_time  DateTime64(9, 'UTC'),
    max_depth          Int32
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant_id, scope_kind, scope_id, kind, window);

CREATE VIEW IF NOT EXISTS budget_windows_latest AS
SELECT * FROM budget_windows
ORDER BY version DESC, generation DESC
LIMIT 1 BY tenant_id, scope_kind, scope_id, kind, window;
