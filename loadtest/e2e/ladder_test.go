//go:build integration

package e2e

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/loadtest/caller"
)

const ladderTenants = `
plans:
  pro:
    limits: {concurrency: 5}
    ceilings: {minute_usd: 10, day_usd: 1, month_usd: 20}
    overrun_percent: 50
    ladder:
      thresholds: [50, 80, 100]
      semantic_threshold: 0.95
      saving_models: {openai/gpt-4o: gpt-4o-mini}
tenants:
  - {id: steps, plan: pro, markup_percent: 20, timezone: MIDDAY}
`

// The ladder from the tenants file to the ledger: the cheaper model is granted from 80 % on and stands in the books, a call that
// took the dearer one all the same is charged for it and flagged, and what a cache answered is a row of $0.
func TestLadderInTheLedger(t *testing.T) {
	w := start(t)
	w.tenants(ladderTenants, "steps")
	ctx, client := t.Context(), w.client("steps")
	admit := func(id, model string, rung int) {
		t.Helper()
		if a, err := reserve(ctx, client, thirtyCents(id)); err != nil || a.Model != model || a.Rung != rung {
			t.Fatalf("%s: %+v, %v; want %s on rung %d", id, a, err, model, rung)
		}
	}
	end := func(id string, s caller.Settlement, cost string, flags ...string) {
		t.Helper()
		if done, err := settle(ctx, client, id, s); err != nil || done.CostUSD != cost || fmt.Sprint(done.Flags) != fmt.Sprint(flags) {
			t.Fatalf("%s: %+v, %v; want $%s %v", id, done, err, cost, flags)
		}
	}
	used := caller.Chat(119_600, 100)
	for i, rung := range []int{0, 0, 1} { // before each: $0, $0.30, $0.60
		id := fmt.Sprint("normal-", i)
		admit(id, "gpt-4o", rung)
		end(id, used, "0.3")
	}
	admit("saving", "gpt-4o-mini", 2)
	end("saving", used, "0.018") // 119,600 × $1.5e-7 + 100 × $6e-7
	admit("dearer", "gpt-4o-mini", 2)
	dearer := used
	dearer.Model = "gpt-4o"
	end("dearer", dearer, "0.3", "dearer_model")
	admit("cached", "gpt-4o-mini", 3)
	end("cached", caller.Settlement{CacheHit: "exact"}, "0", "cache_hit")
	send := thirtyCents("send")
	send.Effect = "write"
	_, err := reserve(ctx, client, send)
	mustRefuse(t, err, "read_only_mode")

	want := map[string]string{"normal": "gpt-4o [] 0.3 0.36", "saving": "gpt-4o-mini [] 0.018 0.0216", "dearer": "gpt-4o ['dearer_model'] 0.3 0.36", "cached": "gpt-4o-mini ['cache_hit'] 0 0"}
	await(t, "the rows", func() bool {
		rows, err := w.Select(ctx, `SELECT splitByChar('-', reservation_id)[1] AS id, concat(model_or_resource, ' ', toString(flags), ' ',
			toString(min(raw_cost_usd)), ' ', toString(max(markup_cost_usd))) AS row, toString(count()) AS n
			FROM agent_cost_ledger WHERE tenant_id = 'steps' AND status = 'SUCCESS' GROUP BY id, model_or_resource, flags`)
		if err != nil || len(rows) != len(want) {
			return false
		}
		for _, row := range rows {
			if row["row"] != want[row["id"]] {
				t.Fatalf("%v, want %v", rows, want)
			}
		}
		return true
	})
	w.mustAudit()
}
