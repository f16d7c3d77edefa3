//go:build integration

package budgetaggregator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weir-project/weir/pkg/clickhouse"
	"github.com/weir-project/weir/pkg/migrate"
	"github.com/weir-project/weir/pkg/testkit"
)

// The table in a real ClickHouse holds the plain sums, to the last digit, through restarts and repeated writes; read through
// the view it is right with merges stopped.
func TestSinkIntoClickHouse(t *testing.T) {
	c, err := clickhouse.Open(testkit.ClickHouse(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := migrate.Statements(t.Context(), c, migrate.ClickHouseRecords, os.DirFS("../../migrations/clickhouse")); err != nil {
		t.Fatal(err)
	}
	if err := c.Exec(t.Context(), "SYSTEM STOP MERGES budget_windows"); err != nil {
		t.Fatal(err)
	}
	b := startBroker(t)
	entries := someEntries(t, rand.New(rand.NewPCG(7, 8)), 150)
	put(t, b.producer.Produce, entries[:80]...)
	first := b.start(t, c)
	b.settled(t, nil, entries[:80])
	// The table follows the topic: a first that is halted before its first insert leaves the second nothing to replace.
	eventually(t, func() string { return different(stored(t, c), recompute(entries[:80])) })
	first.halt(t)
	put(t, b.producer.Produce, entries[80:]...)
	put(t, b.producer.Produce, entries[:40]...)
	b.start(t, c)
	want := recompute(entries)
	eventually(t, func() string { return different(stored(t, c), want) })
	rows, err := c.Query(context.WithoutCancel(t.Context()), "SELECT toString(count()) FROM budget_windows")
	if err != nil || rows[0][0] == fmt.Sprint(len(want)) {
		t.Errorf("no total was ever replaced: %v, %v", rows, err)
	}
}

// stored is the table in the words of recompute.
func stored(t *testing.T, c *clickhouse.Client) map[string]string {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT
		concat(tenant_id, '\0', multiIf(kind = 'EXECUTION', concat(lower(scope_kind), '\0', scope_id), scope_kind = 'TENANT', concat(lower(kind), '\0', toString(window)),
			concat(lower(scope_kind), '\0', scope_id, '\0', lower(kind), '\0', toString(window)))),
		concat('own ', toString(own_nanos), ' external ', toString(external_nanos), ' tokens ', toString(input_tokens), ' ', toString(output_tokens), ' entries ', toString(entries),
			' unpriced ', toString(unpriced_entries), ' estimated ', toString(estimated_entries), ' raw ', toString(raw_cost_usd), ' billed ', toString(billed_cost_usd),
			' depth ', toString(max_depth)) FROM budget_windows_latest`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r[0]] = r[1]
	}
	return out
}
