-- Each statement lists what is wrong, or says true.

-- Without a deduplication window a repeated insert would be billed twice.
SELECT engine_full LIKE '%non_replicated_deduplication_window = 10000%' FROM system.tables
 WHERE database = currentDatabase() AND name = 'agent_cost_ledger';

-- An acknowledged insert survives a power cut.
SELECT engine_full LIKE '%fsync_after_insert = 1%fsync_part_directory = 1%' FROM system.tables
 WHERE database = currentDatabase() AND name = 'agent_cost_ledger';

-- One block per insert and month: the sink splits by this expression.
SELECT partition_key = 'toYYYYMM(timestamp)' AND sorting_key = 'tenant_id, timestamp, id' FROM system.tables
 WHERE database = currentDatabase() AND name = 'agent_cost_ledger';

-- Money is exact and can be absent.
SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'agent_cost_ledger'
   AND name IN ('raw_cost_usd', 'markup_cost_usd') AND type != 'Nullable(Decimal(38, 18))';

-- The names that users rely on.
SELECT arrayJoin(['id', 'timestamp', 'tenant_id', 'root_execution_id', 'parent_agent_id', 'agent_id', 'provider', 'model_or_resource', 'input_tokens',
    'output_tokens', 'raw_cost_usd', 'markup_cost_usd', 'cost_center', 'status', 'error_code', 'entry_kind', 'depth', 'meters', 'costs', 'price_version',
    'markup_percent', 'reservation_id', 'source', 'event_id', 'response_id', 'trace_id', 'span_id', 'flags', 'recorded_at', 'posted_period',
    'kafka_topic', 'kafka_partition', 'kafka_offset']) AS missing
 WHERE missing NOT IN (SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'agent_cost_ledger');

SELECT arrayJoin(['tenant_id', 'month', 'cost_center', 'agent_id', 'provider', 'model', 'raw_cost_usd', 'billed_cost_usd', 'meters', 'unpriced', 'estimated']) AS missing
 WHERE missing NOT IN (SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'bill');
