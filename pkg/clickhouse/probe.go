package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// oldestVersion is the oldest ClickHouse whose deduplication of plain MergeTree by token the sink relies on.
const oldestVersion = 23

// Probe refuses a server on which an insert could be counted twice: too old, without the ledger, or with a ledger that has
// no deduplication window. It is asked once before a sink starts.
func (c *Client) Probe(ctx context.Context) error {
	rows, err := c.Query(ctx, "SELECT version()")
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("clickhouse: version: %d rows", len(rows))
	}
	major, _, _ := strings.Cut(rows[0][0], ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestVersion {
		return fmt.Errorf("clickhouse: version %s, need %d or newer", rows[0][0], oldestVersion)
	}
	rows, err = c.Query(ctx, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'agent_cost_ledger'")
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("clickhouse: database %s has no table agent_cost_ledger: run the migrations", c.database)
	}
	engine := rows[0][0]
	replicated := strings.HasPrefix(engine, "Replicated") || strings.HasPrefix(engine, "Shared")
	if !replicated && (!strings.Contains(engine, "non_replicated_deduplication_window") || strings.Contains(engine, "non_replicated_deduplication_window = 0")) {
		return fmt.Errorf("clickhouse: agent_cost_ledger has no deduplication window (%s)", engine)
	}
	return nil
}
