package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// checkLedger wants each journal entry as exactly one row, equal in every column that finance reads.
func checkLedger(ctx context.Context, books Books, j *journal, r *Report) error {
	rows := make([]int, len(j.entries))
	err := books.LedgerRows(ctx, func(row LedgerRow) error {
		r.LedgerRows++
		n, ok := j.byID[row.ID]
		if !ok {
			r.differ("ledger", "row "+row.ID, "nothing: the journal has no such entry", describe(row))
			return nil
		}
		rows[n]++
		if rows[n] == 1 {
			compareRow(j.entries[n], row, r)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	for n, count := range rows {
		if count != 1 {
			e := j.entries[n]
			r.differ("ledger", "row "+e.GetId(), "once", fmt.Sprintf("%d times (tenant %s, event %s)", count, e.GetTenantId(), e.GetEventId()))
		}
	}
	return nil
}

func describe(row LedgerRow) string {
	return fmt.Sprintf("tenant %s, event %s, raw cost %s", row.TenantID, row.EventID, row.RawUSD)
}

func compareRow(e entry, row LedgerRow, r *Report) {
	l := e.GetLineage()
	what, older := "row "+row.ID+" ", false
	for _, c := range []struct{ column, want, got string }{
		{"tenant_id", e.GetTenantId(), row.TenantID}, {"root_execution_id", l.GetRootExecutionId(), row.Root},
		{"parent_agent_id", l.GetParentAgentId(), row.Parent}, {"agent_id", l.GetAgentId(), row.Agent},
		{"cost_center", l.GetCostCenter(), row.CostCenter}, {"provider", e.GetProvider(), row.Provider},
		{"model_or_resource", e.GetModel(), row.Model}, {"status", strings.TrimPrefix(e.GetStatus().String(), "CALL_STATUS_"), row.Status},
		{"error_code", e.GetErrorCode(), row.ErrorCode}, {"entry_kind", strings.TrimPrefix(e.GetKind().String(), "ENTRY_KIND_"), row.Kind},
		{"source", e.GetSource(), row.Source}, {"event_id", e.GetEventId(), row.EventID}, {"response_id", e.GetResponseId(), row.ResponseID},
		{"reservation_id", e.GetReservationId(), row.Reservation}, {"price_version", e.GetPriceVersion(), row.PriceVersion},
		{"raw_cost_usd", plain(deref(e.RawCostUsd)), plain(row.RawUSD)}, {"markup_cost_usd", plain(deref(e.BilledCostUsd)), plain(row.BilledUSD)},
		{"markup_percent", plain(orZero(e.GetMarkupPercent())), plain(row.MarkupPercent)},
		{"meters", lineMap(e, true), mapText(row.Meters)}, {"costs", lineMap(e, false), mapText(row.Costs)},
		{"trace_id", l.GetTraceId(), row.TraceID}, {"span_id", l.GetSpanId(), row.SpanID}, {"reverses_id", e.GetReversesId(), row.ReversesID},
		{"service_tier", e.GetServiceTier(), row.ServiceTier}, {"kafka_topic", topics.LedgerEntries.Name(), row.Topic},
		{"api_key_id", e.GetApiKeyId(), row.APIKey}, {"branches", strings.Join(branchesOf(e.LedgerEntry), ","), strings.Join(row.Branches, ",")},
		{"flags", strings.Join(e.GetFlags(), ","), strings.Join(row.Flags, ",")},
	} {
		if c.column == "status" && c.want == "UNSPECIFIED" {
			c.want = ""
		}
		if row.Layout == 0 && c.got == "" && c.want != "" && (c.column == "api_key_id" || c.column == "branches") {
			older = true
			continue
		}
		same(r, "ledger", what+c.column, c.want, c.got)
	}
	if older {
		r.older(row.RecordedAt)
	}
	for _, c := range []struct {
		column    string
		want, got int64
	}{
		{"input_tokens", e.GetInputTokens(), row.InputTokens}, {"output_tokens", e.GetOutputTokens(), row.OutputTokens},
		{"posted_period", int64(e.GetPostedPeriod()), row.PostedPeriod}, {"kafka_partition", int64(e.at.partition), int64(row.Partition)},
		{"kafka_offset", e.at.offset, row.Offset}, {"timestamp", e.GetEventTime().AsTime().UnixNano(), row.Timestamp.UnixNano()},
		{"depth", int64(l.GetDepth()), int64(row.Depth)}, {"day", int64(e.GetWindows().GetDay()), row.Day},
		{"own_nanos", e.GetOwnNanos(), row.OwnNanos}, {"external_nanos", e.GetExternalNanos(), row.ExternalNanos},
		{"recorded_at", e.GetRecordedAt().AsTime().UnixNano(), row.RecordedAt.UnixNano()},
	} {
		same(r, "ledger", what+c.column, c.want, c.got)
	}
}

// plain brings a decimal into one form, so that 0.50 and 0.5 are equal; "" stays "" (unpriced).
func plain(s string) string {
	if s == "" {
		return ""
	}
	d, err := money.ParseDecimal(s)
	if err != nil {
		return "unreadable " + s
	}
	return d.String()
}

// lineMap sums an entry's lines per meter: quantities or raw costs.
func lineMap(e entry, quantities bool) string {
	sum := map[string]money.Decimal{}
	for _, l := range e.GetLines() {
		text := l.GetRawCostUsd()
		if quantities {
			text = l.GetQuantity()
		}
		if text == "" {
			continue
		}
		d, err := money.ParseDecimal(text)
		if err != nil {
			return "unreadable " + text
		}
		sum[l.GetMeter()] = sum[l.GetMeter()].Add(d)
	}
	out := map[string]string{}
	for m, d := range sum {
		out[m] = d.String()
	}
	return mapText(out)
}

func mapText(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+plain(m[name]))
	}
	return strings.Join(parts, " ")
}
