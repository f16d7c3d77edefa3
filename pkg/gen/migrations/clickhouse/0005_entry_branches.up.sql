-- In which branches of its execution an entry counts, so that the tree of an execution can show them.
ALTER TABLE agent_cost_ledger ADD COLUMN IF NOT EXISTS branches Array(String) COMMENT 'branches of the execution (child agents with a limit of their own) that it counts in, sorted';
