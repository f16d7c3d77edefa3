//go:build integration

package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/pkg/domain/tenant"
)

// batch asks for several reservations at once and gives the results.
func (r *replica) batch(tenant string, items ...any) []object {
	r.w.t.Helper()
	status, out, _ := r.do("POST", "/v1/reservations:batch", r.w.keys[tenant], object{"reservations": items})
	r.w.want("batch", status, out, 200)
	list, _ := out["results"].([]any)
	if len(list) != len(items) {
		r.w.t.Fatalf("%d results of %d reservations: %v", len(list), len(items), out)
	}
	results := make([]object, len(list))
	for i, one := range list {
		results[i], _ = one.(object)
	}
	return results
}

// one reservation of so many cents, as it stands in a batch.
func cents(id string, n int) object {
	return object{"reservation_id": id, "provider": "openai", "model": "flat", "estimate": object{"input_tokens": 0, "max_output_tokens": n}}
}

// brief is status, code and how often each is there, e.g. "201 409 reservation_conflict".
func brief(results []object) string {
	var all []string
	for _, r := range results {
		text := fmt.Sprint(r["status"])
		if p, ok := r["problem"].(object); ok {
			text += " " + fmt.Sprint(p["code"])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// Goal: each reservation of a batch is answered as if it had come alone, in order, whatever becomes of the others; the
// first batch of a new tenant makes its counters.
func TestBatchEachAlone(t *testing.T) {
	k := contract()
	k.Ceilings.Minute = dollar
	w := newWorld(t, map[string]tenant.Contract{"acme": k, "other": contract()})
	r := w.start()
	status, out, _ := r.do("POST", "/v1/executions", w.keys["other"], object{"agent_id": "a"})
	w.want("an execution of another tenant", status, out, 201)
	foreign := cents("foreign", 1)
	foreign["execution_token"] = out["token"]
	unpriced := cents("unpriced", 1)
	unpriced["model"] = "nobody-knows"
	odd := cents("odd", 1)
	odd["surprise"] = true
	results := r.batch("acme", cents("b1", 40), cents("b1", 40), cents("b1", 41), 7, odd, cents("", 1), unpriced, foreign, cents("too-large", 200),
		cents("b2", 70), cents("b3", 60))
	want := "201, 200, 409 reservation_conflict, 400 invalid_argument, 400 invalid_argument, 400 invalid_argument, 422 unknown_price, " +
		"403 forbidden_tenant, 422 estimate_exceeds_limit, 429 tenant_quota_exceeded, 201"
	if got := brief(results); got != want {
		t.Fatalf("%s\nwant\n%s", got, want)
	}
	status, alone, _ := r.do("POST", "/v1/reservations", w.keys["acme"], cents("b1", 40))
	w.want("the same alone", status, alone, 200)
	if fmt.Sprint(alone) != fmt.Sprint(results[0]["reservation"]) || fmt.Sprint(alone) != fmt.Sprint(results[1]["reservation"]) {
		t.Errorf("a batch answers otherwise than a call alone:\n%v\n%v", results[0], alone)
	}
	if got := figureOf(r.budget("acme"), "day", "held_usd"); got != "1" {
		t.Errorf("held %s, want 1", got)
	}
	for code, want := range map[string]float64{"ok": 3, "invalid_argument": 3, "tenant_quota_exceeded": 1} {
		if got := testutil.ToFloat64(r.svc.metrics.answers.WithLabelValues(batchItemCall, code)); got != want {
			t.Errorf("%s is counted %v times, want %v", code, got, want)
		}
	}
}

// Goal: the bounds of a batch: 1 to 256 reservations, and a body as any other.
func TestBatchBounds(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	many := func(n int) object {
		list := make([]any, n)
		for i := range list {
			list[i] = cents(fmt.Sprintf("m%d", i), 1)
		}
		return object{"reservations": list}
	}
	for name, c := range map[string]struct {
		body any
		want int
		code string
	}{
		"none":       {object{"reservations": []any{}}, 400, "invalid_argument"},
		"no list":    {object{}, 400, "invalid_argument"},
		"an object":  {object{"reservations": object{}}, 400, "invalid_argument"},
		"too many":   {many(maxBatch + 1), 400, "invalid_argument"},
		"too large":  {`{"reservations":["` + strings.Repeat("x", maxBody) + `"]}`, 413, "body_too_large"},
		"not whole":  {`{"reservations":[`, 400, "invalid_argument"},
		"null in it": {`{"reservations":[null]}`, 200, "<nil>"},
	} {
		status, out, _ := r.do("POST", "/v1/reservations:batch", w.keys["acme"], c.body)
		w.want(name, status, out, c.want, "code", c.code)
	}
	status, out, _ := r.do("POST", "/v1/reservations:batch", w.keys["acme"], many(maxBatch))
	w.want("as many as may be", status, out, 200)
	for i, one := range out["results"].([]any) {
		if fmt.Sprint(one.(object)["status"]) != "201" {
			t.Fatalf("reservation %d: %v", i, one)
		}
	}
	status, out, _ = r.do("POST", "/v1/reservations:batch", "", many(1))
	w.want("nobody", status, out, 401, "code", "unauthenticated")
}

// Goal: a store that is away fails each reservation of a batch by itself, with 503, and never the batch, nor with 401;
// what is wrong anyway is told as such.
func TestBatchWithoutStore(t *testing.T) {
	w := newWorld(t, one(contract()))
	r := w.start()
	if got := brief(r.batch("acme", cents("b1", 1))); got != "201" {
		t.Fatal(got)
	}
	w.must(w.redis.Stop(0))
	results := r.batch("acme", cents("b1", 1), cents("", 1), cents("b2", 1))
	if got := brief(results); got != "503 budget_store_unavailable, 400 invalid_argument, 503 budget_store_unavailable" {
		t.Fatal(got)
	}
	if p := results[0]["problem"].(object); p["retry_after_ms"] == nil || slices.Contains([]any{nil, ""}, p["type"]) {
		t.Errorf("%v", p)
	}
}
