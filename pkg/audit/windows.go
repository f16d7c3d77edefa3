package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// total is what the journal says a window holds.
type total struct {
	own, external, input, output, entries, unpriced, estimated int64
	version, depth                                             int64
	raw, billed                                                money.USD
	latest                                                     time.Time
	mayBeGone                                                  bool // where it is there all the same, it must be right
}

// foldWindows adds every entry to its minute, hour, day, month and execution, to minute, day and month of each of its
// sub-scopes, and to each of its branches.
func foldWindows(j *journal, book catalogs) map[WindowKey]*total {
	all := map[WindowKey]*total{}
	for _, e := range j.entries {
		c, known := book.tenants[e.GetTenantId()]
		if !known {
			continue // reported by checkEntries
		}
		k := keys(e, c.zoneOf(e))
		for i, kind := range []string{"MINUTE", "HOUR", "DAY", "MONTH"} {
			add(all, WindowKey{e.GetTenantId(), "TENANT", "", kind, k[i]}, e)
			for _, s := range e.GetScopes() {
				if kind != "HOUR" && !isBranch(s) {
					add(all, WindowKey{e.GetTenantId(), scopeColumn(s.GetKind()), s.GetId(), kind, k[i]}, e)
				}
			}
		}
		if root := e.GetLineage().GetRootExecutionId(); root != "" {
			add(all, WindowKey{e.GetTenantId(), "EXECUTION", root, "EXECUTION", 0}, e)
		}
		if tooLate(e) {
			continue
		}
		for _, id := range branchesOf(e.LedgerEntry) {
			add(all, WindowKey{e.GetTenantId(), branchColumn, id, "EXECUTION", 0}, e)
		}
	}
	return all
}

func add(all map[WindowKey]*total, key WindowKey, e entry) {
	t := all[key]
	if t == nil {
		t = &total{}
		all[key] = t
	}
	sign := int64(1)
	if e.GetKind() == weirv1.EntryKind_ENTRY_KIND_REVERSAL {
		sign = -1
	}
	t.own += e.GetOwnNanos()
	t.external += e.GetExternalNanos()
	t.input += e.GetInputTokens()
	t.output += e.GetOutputTokens()
	t.entries++
	t.version = max(t.version, e.at.offset+1)
	t.depth = max(t.depth, int64(e.GetLineage().GetDepth()))
	if at := e.GetEventTime().AsTime(); at.After(t.latest) {
		t.latest = at
	}
	if e.RawCostUsd == nil {
		t.unpriced += sign
	} else {
		// Unreadable money is reported by checkEntries.
		raw, _ := money.ParseUSD(e.GetRawCostUsd())
		billed, _ := money.ParseUSD(e.GetBilledCostUsd())
		t.raw, t.billed = t.raw.Add(raw), t.billed.Add(billed)
	}
	for _, f := range e.GetFlags() {
		if f == "estimated" {
			t.estimated += sign
		}
	}
}

// scopeColumn is a scope as the window table has it.
func scopeColumn(k weirv1.ScopeKind) string { return strings.TrimPrefix(k.String(), "SCOPE_KIND_") }

// checkWindowTopic compares the highest version of each key in budget.windows.v1, and returns the bases that it met. A
// tombstone deletes its key.
func checkWindowTopic(ctx context.Context, log *bus.Conn, want map[WindowKey]*total, r *Report) (bases, error) {
	byKey, past := map[string]WindowRow{}, bases{}
	if err := readTopic(ctx, log, topics.BudgetWindows, func(rec bus.Record) { takeWindow(rec, byKey, past, r) }); err != nil {
		return nil, err
	}
	latest := map[WindowKey]WindowRow{}
	for _, row := range byKey {
		if _, twice := latest[row.Key]; twice {
			r.differ("windows topic", row.Key.String(), "one record key", "several")
		}
		latest[row.Key] = row
	}
	r.Windows = int64(len(latest))
	compareWindows("windows topic", want, latest, r)
	return past, nil
}

func takeWindow(rec bus.Record, byKey map[string]WindowRow, past bases, r *Report) {
	if rec.Value == nil {
		delete(byKey, string(rec.Key))
		delete(past, baseKey{rec.Partition, string(rec.Key)})
		return
	}
	m := new(weirv1.WindowTotal)
	if err := proto.Unmarshal(rec.Value, m); err != nil {
		r.differ("windows topic", fmt.Sprintf("%d/%d", rec.Partition, rec.Offset), "a WindowTotal", err.Error())
		return
	}
	if m.GetBaseEpoch() != 0 { // of a past moment
		past[baseKey{rec.Partition, string(rec.Key)}] = m
		return
	}
	row := windowRow(m)
	if home := bus.PartitionFor([]byte(m.GetTenantId()), topics.BudgetWindows.Partitions()); home != rec.Partition {
		r.differ("windows topic", row.Key.String(), fmt.Sprintf("partition %d", home), fmt.Sprintf("partition %d", rec.Partition))
	}
	if old, ok := byKey[string(rec.Key)]; !ok || row.Version >= old.Version {
		byKey[string(rec.Key)] = row
	}
}

func windowRow(m *weirv1.WindowTotal) WindowRow {
	kind := strings.TrimPrefix(m.GetKind().String(), "WINDOW_KIND_")
	return WindowRow{
		Key:     WindowKey{m.GetTenantId(), scopeColumn(m.GetScopeKind()), m.GetScopeId(), kind, m.GetWindow()},
		Version: m.GetVersion(), OwnNanos: m.GetOwnNanos(), ExternalNanos: m.GetExternalNanos(), RawUSD: m.GetRawCostUsd(),
		BilledUSD: m.GetBilledCostUsd(), InputTokens: m.GetInputTokens(), OutputTokens: m.GetOutputTokens(), Entries: m.GetEntries(),
		Unpriced: m.GetUnpricedEntries(), Estimated: m.GetEstimatedEntries(),
		MaxDepth: int64(m.GetMaxDepth()), Latest: m.GetLatestEventTime().AsTime(),
	}
}

// checkWindowTable compares ClickHouse's latest versions.
func checkWindowTable(ctx context.Context, books Books, want map[WindowKey]*total, r *Report) error {
	latest := map[WindowKey]WindowRow{}
	err := books.Windows(ctx, func(row WindowRow) error {
		if _, twice := latest[row.Key]; twice {
			r.differ("windows table", row.Key.String(), "one latest version", "two")
		}
		latest[row.Key] = row
		return nil
	})
	if err == nil {
		err = books.WindowConflicts(ctx, func(key WindowKey, contents int64) error {
			r.differ("windows table", key.String(), "one content of a version", fmt.Sprint(contents))
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read the windows: %w", err)
	}
	compareWindows("windows table", want, latest, r)
	return nil
}

func compareWindows(where string, want map[WindowKey]*total, got map[WindowKey]WindowRow, r *Report) {
	for key, w := range want {
		g, ok := got[key]
		if !ok && w.mayBeGone {
			continue
		}
		if !ok {
			r.differ(where, key.String(), fmt.Sprintf("raw cost %s, %d entries", w.raw, w.entries), "nothing")
			continue
		}
		what := key.String() + " "
		same(r, where, what+"version", w.version, g.Version)
		same(r, where, what+"own nano-dollars", w.own, g.OwnNanos)
		same(r, where, what+"external nano-dollars", w.external, g.ExternalNanos)
		same(r, where, what+"raw cost", w.raw.String(), plain(orZero(g.RawUSD)))
		same(r, where, what+"billed cost", w.billed.String(), plain(orZero(g.BilledUSD)))
		same(r, where, what+"input tokens", w.input, g.InputTokens)
		same(r, where, what+"output tokens", w.output, g.OutputTokens)
		same(r, where, what+"entries", w.entries, g.Entries)
		same(r, where, what+"unpriced entries", w.unpriced, g.Unpriced)
		same(r, where, what+"estimated entries", w.estimated, g.Estimated)
		same(r, where, what+"latest event time", w.latest.UTC().Format(time.RFC3339Nano), g.Latest.UTC().Format(time.RFC3339Nano))
		if key.Kind == "EXECUTION" { // a tenant's own windows have none
			same(r, where, what+"maximum depth", w.depth, g.MaxDepth)
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			r.differ(where, key.String(), "nothing: the journal has no entry in it", fmt.Sprintf("raw cost %s, %d entries", g.RawUSD, g.Entries))
		}
	}
}
