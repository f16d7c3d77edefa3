//go:build integration

package clickhouse

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/testkit"
)

// open migrates a database of the test's own.
func open(t *testing.T) *Client {
	t.Helper()
	c, err := Open(testkit.ClickHouse(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.CreateDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want := 6; want >= 0; want -= 6 { // the second run finds nothing to do
		done, err := migrate.Statements(t.Context(), c, migrate.ClickHouseRecords, os.DirFS("../../migrations/clickhouse"))
		if err != nil || len(done) != want {
			t.Fatalf("%d migrations applied, want %d: %v", len(done), want, err)
		}
	}
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func one(t *testing.T, c *Client, sql string) string {
	t.Helper()
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, strings.Join(r, " "))
	}
	return strings.Join(out, "; ")
}

func ledgerRows(t *testing.T, from, n int) []row {
	var rows []row
	for i := from; i < from+n; i++ {
		e := entry(t, i*2) // even: all of one month
		e.APIKeyID = fmt.Sprint("k", i)
		e.Scopes = []window.Scope{{Kind: window.Agent, ID: "a"}, {Kind: window.Branch, ID: "b1"}, {Kind: window.Branch, ID: "b2"}}
		rows = append(rows, row{entry: e, topic: "ledger.entries.v1", partition: 3, offset: int64(i)})
	}
	return rows
}

func TestLedgerTable(t *testing.T) {
	c, ctx := open(t), t.Context()
	rows := ledgerRows(t, 0, 50)
	rows[7].entry.Raw, rows[7].entry.Billed, rows[7].entry.Flags = nil, nil, []string{"unpriced"}
	rows[7].entry.Lines[0].Raw = nil
	for range 3 { // repeats under the same token
		if err := c.insertLedger(ctx, "a", rows); err != nil {
			t.Fatal(err)
		}
	}
	if got := one(t, c, "SELECT count(), toString(sum(raw_cost_usd)), toString(sum(markup_cost_usd)), countIf(raw_cost_usd IS NULL) FROM agent_cost_ledger"); got != "50 0.1225 0.147 1" {
		t.Errorf("after three inserts of one block: %s", got)
	}
	if err := c.insertLedger(ctx, "b", ledgerRows(t, 50, 1)); err != nil {
		t.Fatal(err)
	}
	if got := one(t, c, "SELECT id, timestamp, tenant_id, meters['input_tokens'], toString(costs['input_tokens']), kafka_partition, kafka_offset, entry_kind, posted_period, api_key_id, toString(branches), layout FROM agent_cost_ledger WHERE kafka_offset = 50"); got !=
		"e_0100 2026-04-30T23:59:59.9990001Z acme 1000 0.0025 3 50 USAGE 202604 k50 ['b1','b2'] 1" {
		t.Errorf("row %s", got)
	}
	present, err := c.presentOffsets(ctx, "ledger.entries.v1", 3, 48, 60)
	if err != nil || len(present) != 3 || !present[50] || present[51] {
		t.Errorf("present %v, %v", present, err)
	}
	if got := one(t, c, "SELECT tenant_id, month, cost_center, agent_id, provider, model, toString(raw_cost_usd), toString(billed_cost_usd), toString(meters), entries, calls, unpriced, estimated FROM bill"); got !=
		"acme 202604 ops a openai gpt-4o 0.125 0.15 {'input_tokens':51000} 51 51 1 0" {
		t.Errorf("bill %s", got)
	}
	for name, sql := range map[string]string{
		"by_cost_center":    "SELECT sum(raw_cost_usd) FROM agent_cost_ledger WHERE tenant_id = 'acme' AND cost_center = 'ops' AND timestamp > '2026-01-01'",
		"by_root_execution": "SELECT agent_id, sum(raw_cost_usd) FROM agent_cost_ledger WHERE tenant_id = 'acme' AND root_execution_id = 'root1' GROUP BY agent_id",
	} {
		if plan := one(t, c, "EXPLAIN indexes = 1, projections = 1 "+sql+" SETTINGS force_optimize_projection = 1"); !strings.Contains(plan, name) {
			t.Errorf("%s is not used:\n%s", name, plan)
		}
	}
}

func TestWindows(t *testing.T) {
	c := open(t)
	total := func(version int64, cost string) *weirv1.WindowTotal {
		return &weirv1.WindowTotal{TenantId: "acme", ScopeKind: weirv1.ScopeKind_SCOPE_KIND_TENANT, Kind: weirv1.WindowKind_WINDOW_KIND_DAY, Window: 20260430, Version: version,
			RawCostUsd: cost, BilledCostUsd: "", OwnNanos: 5, LatestEventTime: timestamppb.New(time.Unix(1777593599, 0))}
	}
	for _, batch := range [][]*weirv1.WindowTotal{{total(3, "0.3"), total(9, "0.9")}, {total(4, "0.4")}, nil, {total(9, "0.9")}} {
		if err := c.InsertWindows(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	scope := total(4, "0.1")
	scope.ScopeKind, scope.ScopeId = weirv1.ScopeKind_SCOPE_KIND_COST_CENTER, "research"
	if err := c.InsertWindows(t.Context(), []*weirv1.WindowTotal{scope}); err != nil {
		t.Fatal(err)
	}
	if got := one(t, c, "SELECT scope_kind, scope_id, version FROM budget_windows_latest WHERE scope_id != ''"); got != "COST_CENTER research 4" {
		t.Errorf("sub-scope: %s", got)
	}
	if got := one(t, c, "SELECT tenant_id, scope_kind, kind, window, version, toString(raw_cost_usd), own_nanos FROM budget_windows_latest WHERE scope_id = ''"); got != "acme TENANT DAY 20260430 9 0.9 5" {
		t.Errorf("latest: %s", got)
	}
}

func TestProbeRefuses(t *testing.T) {
	c, err := Open(testkit.ClickHouse(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.CreateDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "migrations") {
		t.Errorf("without tables: %v", err)
	}
	if err := c.Exec(t.Context(), "CREATE TABLE agent_cost_ledger (id String) ENGINE = MergeTree ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	if err := c.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "deduplication window") {
		t.Errorf("without a window: %v", err)
	}
}

// A real block through the sink, twice, with the intent left behind.
func TestSinkAgainstTheEngine(t *testing.T) {
	c := open(t)
	l := &log{}
	for i := range 20 {
		l.records = append(l.records, record(t, int64(i), i))
	}
	l.committed.Offset = -1
	run := func(interrupt bool) {
		s, err := newSink(c, l, testRegistry())
		if err != nil {
			t.Fatal(err)
		}
		claim := testClaim(l)
		at, err := s.assigned(t.Context(), claim, l.committed)
		if err != nil {
			t.Fatal(err)
		}
		if at < 0 {
			at = max(0, l.committed.Offset)
		}
		if rest := l.records[at:]; len(rest) > 0 {
			if err := s.Handle(t.Context(), claim, rest[:min(7, len(rest))]); err != nil {
				t.Fatal(err)
			}
			if !interrupt {
				l.committed.Offset, l.committed.Metadata = at+int64(min(7, len(rest))), ""
			}
		}
	}
	for _, interrupt := range []bool{true, false, true, true, false, false, false} {
		run(interrupt)
	}
	if got := one(t, c, "SELECT count(), uniqExact(id), uniqExact(kafka_offset), toString(sum(raw_cost_usd)) FROM agent_cost_ledger"); got != "20 20 20 0.05" {
		t.Errorf("%s, committed %+v", got, l.committed)
	}
	var months []string
	rows, err := c.Query(context.WithoutCancel(t.Context()), "SELECT toString(toYYYYMM(timestamp)) AS m FROM agent_cost_ledger GROUP BY m ORDER BY m")
	for _, r := range rows {
		months = append(months, r[0])
	}
	if err != nil || !slices.Equal(months, []string{"202603", "202604"}) {
		t.Errorf("months %v, %v", months, err)
	}
}
