-- Branches of executions among the window totals.
ALTER TABLE budget_windows COMMENT COLUMN scope_kind 'TENANT, EXECUTION, EXECUTION_BRANCH, COST_CENTER, AGENT, API_KEY';
