-- Each statement lists what is wrong, or says true.

SELECT engine_full LIKE 'ReplacingMergeTree(version)%' AND sorting_key = 'tenant_id, scope_kind, scope_id, kind, window' FROM system.tables
 WHERE database = currentDatabase() AND name = 'budget_windows';

SELECT count() = 18 FROM system.columns WHERE database = currentDatabase() AND table = 'budget_windows_latest';
