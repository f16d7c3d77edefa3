package clickhouse

import (
	"maps"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/weir-project/weir/pkg/domain/ledger"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// row is one journal entry at its place in the journal.
type row struct {
	entry     ledger.Entry
	topic     string
	partition int32
	offset    int64
}

// month is the ClickHouse partition that the row falls into: toYYYYMM(timestamp), in UTC.
func (r row) month() int {
	t := r.entry.EventTime.UTC()
	return t.Year()*100 + int(t.Month())
}

// ledgerColumns are the columns of an insert, in the order of row.values.
const ledgerColumns = "id, timestamp, tenant_id, root_execution_id, parent_agent_id, agent_id, provider, model_or_resource, " +
	"input_tokens, output_tokens, raw_cost_usd, markup_cost_usd, cost_center, status, error_code, entry_kind, depth, meters, costs, " +
	"price_version, markup_percent, reservation_id, source, event_id, response_id, trace_id, span_id, flags, recorded_at, posted_period, " +
	"kafka_topic, kafka_partition, kafka_offset, service_tier, reverses_id, own_nanos, external_nanos, day, api_key_id, branches, layout"

// layout says which columns the writer of a row knew (migration 0006). A migration that adds one to the ledger adds 1.
const layout = uint8(1)

// values is a pure function of the journal record: a replay gives the same row, bit for bit.
func (r row) values() []any {
	e := r.entry
	quantities, costs := map[string]money.Decimal{}, map[string]money.USD{}
	for _, l := range e.Lines { // a graduated tariff has several lines of one meter
		quantities[l.Meter] = quantities[l.Meter].Add(l.Quantity)
		if l.Raw != nil {
			costs[l.Meter] = costs[l.Meter].Add(*l.Raw)
		}
	}
	return []any{
		e.ID, e.EventTime.UTC(), e.TenantID, e.Lineage.RootExecutionID, e.Lineage.ParentAgentID, e.Lineage.AgentID, e.Provider, e.Model,
		e.InputTokens, e.OutputTokens, nullable(e.Raw), nullable(e.Billed), e.Lineage.CostCenter, string(e.Status), e.ErrorCode, string(e.Kind),
		e.Lineage.Depth, ordered(quantities), ordered(costs),
		e.PriceVersion, e.Markup.String(), e.ReservationID, e.Source, e.EventID, e.ResponseID, e.Lineage.TraceID, e.Lineage.SpanID,
		append([]string{}, e.Flags...), e.RecordedAt.UTC(), uint32(e.PostedPeriod),
		r.topic, r.partition, r.offset, e.ServiceTier, e.ReversesID, int64(e.Own), int64(e.External), uint32(e.Windows.Day), e.APIKeyID, branches(e), layout,
	}
}

// branches are those of the entry's sub-scopes that are branches of its execution; they are sorted.
func branches(e ledger.Entry) []string {
	out := []string{}
	for _, s := range e.Scopes {
		if s.Kind == window.Branch {
			out = append(out, s.ID)
		}
	}
	return out
}

func nullable(a *money.USD) *string {
	if a == nil {
		return nil
	}
	s := a.String()
	return &s
}

// ordered makes a map whose members the driver writes in the order of their names: Go's maps have none, and a replay is
// to give the same bytes.
func ordered[V interface{ String() string }](m map[string]V) *orderedMap {
	o := &orderedMap{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o.Put(k, m[k].String())
	}
	return o
}

// orderedMap is the driver's IterableOrderedMap.
type orderedMap struct{ keys, values []any }

// Put adds a member at the end.
func (o *orderedMap) Put(key, value any) {
	o.keys, o.values = append(o.keys, key), append(o.values, value)
}

// Iterator starts before the first member.
func (o *orderedMap) Iterator() column.MapIterator { return &mapIterator{o: o, at: -1} }

type mapIterator struct {
	o  *orderedMap
	at int
}

// Next moves to the next member, if there is one.
func (i *mapIterator) Next() bool { i.at++; return i.at < len(i.o.keys) }

// Key is the member's name.
func (i *mapIterator) Key() any { return i.o.keys[i.at] }

// Value is the member's value.
func (i *mapIterator) Value() any { return i.o.values[i.at] }

// insertInto is the statement of a batch.
func insertInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + strings.TrimSpace(columns) + ")"
}
