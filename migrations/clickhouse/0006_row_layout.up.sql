-- Which columns the writer of a row knew: an empty api_key_id or branches in a row of layout 0 may only say that its writer was older.
ALTER TABLE agent_cost_ledger ADD COLUMN IF NOT EXISTS layout UInt8 COMMENT '0: by a build that may not have known api_key_id and branches; 1: by one that knows all columns up to here';
