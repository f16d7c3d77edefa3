-- Lists what is wrong, or says true.

SELECT count() = 1 FROM system.columns WHERE database = currentDatabase() AND table = 'agent_cost_ledger' AND name = 'layout' AND type = 'UInt8';
