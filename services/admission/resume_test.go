//go:build integration

package admission

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Goal: neither closing nor resuming gives a root a fresh budget, and a root that is too old is not resumed.
func TestResumeKeepsTotals(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	start := func(body object) (int, object) {
		t.Helper()
		status, out, _ := r.do("POST", "/v1/executions", w.keys["acme"], body)
		return status, out
	}
	spent := func(id string, token any, cents int, want string) {
		t.Helper()
		status, out := r.reserve("acme", id, cents, object{"execution_token": token})
		w.want(id, status, out, 201)
		if x, _ := out["execution"].(object); fmt.Sprint(x["spent_usd"]) != want {
			t.Errorf("%s: %v, want %s spent", id, x, want)
		}
	}
	status, root := start(object{"root_execution_id": "x1", "agent_id": "lead", "max_cost_usd": "1", "max_depth": 2})
	w.want("root", status, root, 201)
	spent("r1", root["token"], 30, "0.3")
	status, out := r.settle("acme", "r1", object{"meters": object{"output_tokens": 20}})
	w.want("settled below its hold", status, out, 200)
	for range 2 { // closing twice is closing
		status, out, _ := r.do("POST", "/v1/executions/x1/close", w.keys["acme"], nil)
		w.want("close", status, out, 200, "state", "closed")
	}
	status, again := start(object{"root_execution_id": "x1", "agent_id": "lead", "max_cost_usd": "50", "max_depth": 9})
	w.want("resumed", status, again, 201, "max_cost_usd", "1", "max_depth", "2")
	spent("r2", again["token"], 10, "0.3")
	spent("r3", root["token"], 10, "0.4") // the first token is of the same root
	status, lower := start(object{"root_execution_id": "x1", "agent_id": "lead", "max_cost_usd": "0.5"})
	w.want("limits fall", status, lower, 201, "max_cost_usd", "0.5")
	status, out = r.reserve("acme", "r4", 20, object{"execution_token": root["token"]})
	w.want("for the tokens that were given before, too", status, out, 403, "code", "execution_budget_exceeded")

	pg, err := pgx.Connect(t.Context(), w.postgres)
	w.must(err)
	defer pg.Close(context.Background())
	changed, err := pg.Exec(t.Context(), "UPDATE executions SET created_at = created_at - interval '8 days'")
	w.must(err)
	if changed.RowsAffected() != 1 {
		t.Fatalf("%d rows", changed.RowsAffected())
	}
	status, out = start(object{"root_execution_id": "x1", "agent_id": "lead"})
	w.want("older than a root may be", status, out, 403, "code", "execution_revoked")
}
