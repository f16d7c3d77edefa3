package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// One insert must be one block: these are above every range that a sink may cut. They are sent with each insert, since
// the server's defaults have changed between versions.
const (
	blockRows  = 1_048_449
	blockBytes = 268_402_944
)

// settings of an insert. token "" is for tables that replace by version and need no deduplication.
func (c *Client) settings(token string) ch.Settings {
	s := ch.Settings{
		"async_insert": 0, "wait_for_async_insert": 1, "max_insert_threads": 1, "max_insert_block_size": blockRows,
		"min_insert_block_size_rows": blockRows, "min_insert_block_size_bytes": blockBytes, "insert_deduplicate": 0,
	}
	if token != "" {
		s["insert_deduplicate"] = 1
		s["insert_deduplication_token"] = token
	}
	return s
}

// insertLedger writes rows of one month as one block. It returns nil once they are durable, or were there already under
// the same token. After an error they may or may not be there: repeat with the same rows and token.
func (c *Client) insertLedger(ctx context.Context, token string, rows []row) error {
	values := make([][]any, len(rows))
	for i, r := range rows {
		values[i] = r.values()
	}
	return c.insert(ctx, insertInto("agent_cost_ledger", ledgerColumns), token, values)
}

func (c *Client) insert(ctx context.Context, statement, token string, rows [][]any) error {
	ctx = ch.Context(ctx, ch.WithSettings(c.settings(token)))
	batch, err := c.conn.PrepareBatch(ctx, statement)
	if err != nil {
		return fmt.Errorf("clickhouse: prepare insert: %w", err)
	}
	for _, values := range rows {
		if err := batch.Append(values...); err != nil {
			_ = batch.Abort() // nothing was sent; the error that matters is the first one
			return fmt.Errorf("clickhouse: row of an insert: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("clickhouse: insert of %d rows: %w", len(rows), err)
	}
	return nil
}

// presentOffsets lists which journal offsets of a range are in the ledger.
func (c *Client) presentOffsets(ctx context.Context, topic string, partition int32, from, to int64) (map[int64]bool, error) {
	rows, err := c.Select(ctx, "SELECT toString(kafka_offset) FROM agent_cost_ledger WHERE kafka_topic = ? AND kafka_partition = ? AND kafka_offset BETWEEN ? AND ?",
		topic, partition, from, to)
	if err != nil {
		return nil, err
	}
	present := make(map[int64]bool, len(rows))
	for _, r := range rows {
		offset, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("clickhouse: offset %q: %w", r[0], err)
		}
		present[offset] = true
	}
	return present, nil
}

const windowColumns = "tenant_id, scope_kind, scope_id, kind, window, version, generation, own_nanos, external_nanos, raw_cost_usd, billed_cost_usd, " +
	"input_tokens, output_tokens, entries, unpriced_entries, estimated_entries, latest_event_time, max_depth"

// InsertWindows writes window totals into budget_windows, where the highest version of a key wins: writing one again
// changes nothing. Keep to 1,000 to 100,000 rows and about one call a second.
func (c *Client) InsertWindows(ctx context.Context, totals []*weirv1.WindowTotal) error {
	if len(totals) == 0 {
		return nil
	}
	rows := make([][]any, len(totals))
	for i, t := range totals {
		rows[i] = []any{
			t.GetTenantId(), strings.TrimPrefix(t.GetScopeKind().String(), "SCOPE_KIND_"), t.GetScopeId(), strings.TrimPrefix(t.GetKind().String(), "WINDOW_KIND_"), t.GetWindow(),
			t.GetVersion(), t.GetGeneration(), t.GetOwnNanos(), t.GetExternalNanos(), zeroIfEmpty(t.GetRawCostUsd()), zeroIfEmpty(t.GetBilledCostUsd()),
			t.GetInputTokens(), t.GetOutputTokens(), t.GetEntries(), t.GetUnpricedEntries(), t.GetEstimatedEntries(), t.GetLatestEventTime().AsTime(), t.GetMaxDepth(),
		}
	}
	return c.insert(ctx, insertInto("budget_windows", windowColumns), "", rows)
}

// zeroIfEmpty: a total over no priced entry is zero dollars; how many were not priced is a column of its own.
func zeroIfEmpty(s string) string {
	if s == "" {
		return "0"
	}
	return s
}
