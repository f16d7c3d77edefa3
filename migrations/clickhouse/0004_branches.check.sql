-- Lists what is wrong, or says true.

SELECT count() = 1 FROM system.columns
 WHERE database = currentDatabase() AND table = 'budget_windows' AND name = 'scope_kind' AND comment LIKE '%EXECUTION_BRANCH%';
