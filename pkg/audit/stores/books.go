// Package stores lets an audit read ClickHouse and Redis. It decides nothing.
package stores

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/clickhouse"
)

// page bounds the rows held in memory at a time; rows of one journal offset are never split over two pages.
const page = 20_000

// Books is ClickHouse as the auditor sees it.
type Books struct{ Client *clickhouse.Client }

// NULL comes back as "NULL": costs are made text by the server, so that no driver type stands between. Whole numbers are last.
const ledgerQuery = `SELECT id, tenant_id, root_execution_id, parent_agent_id, agent_id, cost_center, provider, model_or_resource,
	status, error_code, entry_kind, source, event_id, response_id, reservation_id, price_version, toString(markup_percent),
	ifNull(toString(raw_cost_usd), ''), ifNull(toString(markup_cost_usd), ''),
	arrayStringConcat(arrayMap((k, v) -> concat(k, '=', toString(v)), mapKeys(meters), mapValues(meters)), '\n'),
	arrayStringConcat(arrayMap((k, v) -> concat(k, '=', toString(v)), mapKeys(costs), mapValues(costs)), '\n'),
	arrayStringConcat(flags, '\n'), arrayStringConcat(branches, '\n'),
	trace_id, span_id, reverses_id, service_tier, kafka_topic, api_key_id,
	toString(input_tokens), toString(output_tokens), toString(posted_period), toString(kafka_partition), toString(kafka_offset),
	toString(toUnixTimestamp64Nano(timestamp)), toString(toUnixTimestamp64Nano(recorded_at)), toString(depth), toString(day),
	toString(own_nanos), toString(external_nanos), toString(layout)
FROM agent_cost_ledger WHERE (kafka_partition, kafka_offset) > (?, ?)
ORDER BY kafka_partition, kafka_offset LIMIT ? WITH TIES`

// LedgerRows implements audit.Books.
func (b Books) LedgerRows(ctx context.Context, fn func(audit.LedgerRow) error) error {
	partition, offset := int64(-1), int64(-1)
	for {
		rows, err := b.Client.Select(ctx, ledgerQuery, partition, offset, page)
		if err != nil {
			return err
		}
		for _, text := range rows {
			row, err := ledgerRow(text)
			if err != nil {
				return err
			}
			if err := fn(row); err != nil {
				return err
			}
			partition, offset = int64(row.Partition), row.Offset
		}
		if len(rows) < page {
			return nil
		}
	}
}

func ledgerRow(t []string) (audit.LedgerRow, error) {
	n, err := numbers(t[29:])
	if err != nil {
		return audit.LedgerRow{}, fmt.Errorf("ledger row %s: %w", t[0], err)
	}
	return audit.LedgerRow{
		ID: t[0], TenantID: t[1], Root: t[2], Parent: t[3], Agent: t[4], CostCenter: t[5], Provider: t[6], Model: t[7],
		Status: t[8], ErrorCode: t[9], Kind: t[10], Source: t[11], EventID: t[12], ResponseID: t[13], Reservation: t[14],
		PriceVersion: t[15], MarkupPercent: t[16], RawUSD: t[17], BilledUSD: t[18],
		Meters: pairs(t[19]), Costs: pairs(t[20]), Flags: lines(t[21]), Branches: lines(t[22]),
		TraceID: t[23], SpanID: t[24], ReversesID: t[25], ServiceTier: t[26], Topic: t[27], APIKey: t[28],
		InputTokens: n[0], OutputTokens: n[1], PostedPeriod: n[2], Partition: int32(n[3]), Offset: n[4],
		Timestamp: time.Unix(0, n[5]), RecordedAt: time.Unix(0, n[6]), Depth: int32(n[7]), Day: n[8],
		OwnNanos: n[9], ExternalNanos: n[10], Layout: n[11],
	}, nil
}

func numbers(texts []string) ([]int64, error) {
	out := make([]int64, len(texts))
	for i, s := range texts {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func pairs(s string) map[string]string {
	out := map[string]string{}
	for _, line := range lines(s) {
		k, v, _ := strings.Cut(line, "=")
		out[k] = v
	}
	return out
}

const windowQuery = `SELECT tenant_id, scope_kind, scope_id, kind, toString(raw_cost_usd), toString(billed_cost_usd),
	toString(window), toString(version), toString(own_nanos), toString(external_nanos), toString(input_tokens), toString(output_tokens),
	toString(entries), toString(unpriced_entries), toString(estimated_entries), toString(max_depth), toString(toUnixTimestamp64Nano(latest_event_time))
FROM budget_windows_latest ORDER BY tenant_id, scope_kind, scope_id, kind, window LIMIT ? OFFSET ?`

// Equal rows are what a sink that was killed writes again, and do not count. Rows of one version and generation that
// differ leave open which of them a reader gets.
const conflictQuery = `SELECT tenant_id, scope_kind, scope_id, kind, toString(window), toString(uniqExact(tuple(own_nanos, external_nanos,
	raw_cost_usd, billed_cost_usd, input_tokens, output_tokens, entries, unpriced_entries, estimated_entries, latest_event_time, max_depth))) AS n
FROM budget_windows GROUP BY tenant_id, scope_kind, scope_id, kind, window, version, generation HAVING toInt64(n) > 1 LIMIT 1000`

// WindowConflicts implements audit.Books.
func (b Books) WindowConflicts(ctx context.Context, fn func(key audit.WindowKey, contents int64) error) error {
	rows, err := b.Client.Select(ctx, conflictQuery)
	if err != nil {
		return err
	}
	for _, t := range rows {
		n, err := numbers(t[4:])
		if err != nil {
			return fmt.Errorf("window of %s: %w", t[0], err)
		}
		if err := fn(audit.WindowKey{Tenant: t[0], Scope: t[1], ScopeID: t[2], Kind: t[3], Window: n[0]}, n[1]); err != nil {
			return err
		}
	}
	return nil
}

// Windows implements audit.Books. It pages by number, so it wants a quiet table, as the whole audit does.
func (b Books) Windows(ctx context.Context, fn func(audit.WindowRow) error) error {
	for at := 0; ; at += page {
		rows, err := b.Client.Select(ctx, windowQuery, page, at)
		if err != nil {
			return err
		}
		for _, t := range rows {
			n, err := numbers(t[6:])
			if err != nil {
				return fmt.Errorf("window of %s: %w", t[0], err)
			}
			if err := fn(audit.WindowRow{
				Key:     audit.WindowKey{Tenant: t[0], Scope: t[1], ScopeID: t[2], Kind: t[3], Window: n[0]},
				Version: n[1], OwnNanos: n[2], ExternalNanos: n[3], InputTokens: n[4], OutputTokens: n[5], Entries: n[6],
				Unpriced: n[7], Estimated: n[8], MaxDepth: n[9], Latest: time.Unix(0, n[10]), RawUSD: t[4], BilledUSD: t[5],
			}); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
	}
}
