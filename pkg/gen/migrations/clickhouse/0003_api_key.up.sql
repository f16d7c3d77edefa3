-- Who reserved, for bills by API key; and sub-scopes of a tenant among the window totals.
ALTER TABLE agent_cost_ledger ADD COLUMN IF NOT EXISTS api_key_id LowCardinality(String) COMMENT 'API key that reserved, empty where none did';

ALTER TABLE budget_windows COMMENT COLUMN scope_kind 'TENANT, EXECUTION, COST_CENTER, AGENT, API_KEY';
