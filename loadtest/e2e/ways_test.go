//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/loadtest/caller"
)

// neverAsked: usage that kcat produces without a reservation lowers what GET /v1/budget says is left, and causes the
// next refusal. The tenant's month is $0.006, the event costs $0.0038.
func (w *world) neverAsked(tenant string) {
	ctx, client := w.t.Context(), w.client(tenant)
	kcat(w.t)
	if _, err := reserve(ctx, client, reservation("fits", 1000, 50)); err != nil { // $0.003
		w.t.Fatal(err)
	}
	if err := release(ctx, client, "fits"); err != nil {
		w.t.Fatal(err)
	}
	before, err := budget(ctx, client)
	if err != nil || before.Windows["month"].RemainingUSD != "0.006" {
		w.t.Fatalf("budget before: %+v, %v", before, err)
	}
	run(w.t, 0, root, w.Environ(), "sh", "docs/examples/kafka/kcat.sh", tenant, "kcat-1")
	var month caller.Window
	await(w.t, "the event in the budget", func() bool {
		b, err := client.Budget(ctx)
		month = b.Windows["month"]
		return err == nil && month.RemainingUSD == "0.0022"
	})
	if month.ExternalUSD != "0.0038" || month.OwnUSD != "0" {
		w.t.Errorf("month %+v", month)
	}
	_, err = reserve(ctx, client, reservation("fits-no-more", 1000, 50))
	if r := mustRefuse(w.t, err, "tenant_quota_exceeded"); r.Window != "month" {
		w.t.Errorf("refused with %+v", r)
	}
}

const waysTenants = `
tenants:
  - {id: python, limits: {concurrency: 1}, ceilings: {minute_usd: 0.1, day_usd: 0.1, month_usd: 0.05}, timezone: MIDDAY}
  - {id: go, limits: {concurrency: 1}, ceilings: {minute_usd: 0.1, day_usd: 0.1, month_usd: 0.05}, timezone: MIDDAY}
  - {id: typescript, limits: {concurrency: 1}, ceilings: {minute_usd: 0.1, day_usd: 0.1, month_usd: 0.05}, timezone: MIDDAY}
  - {id: producer, limits: {concurrency: 1}, ceilings: {minute_usd: 1, day_usd: 5, month_usd: 50}, markup_percent: 10}
  - {id: k6-a, limits: {concurrency: 50}, ceilings: {minute_usd: 10, day_usd: 50, month_usd: 500}}
  - {id: k6-b, limits: {concurrency: 50}, ceilings: {minute_usd: 10, day_usd: 50, month_usd: 500}}
`

// The ways in, each as the documentation shows it.
func TestWaysIn(t *testing.T) {
	t.Setenv("ADMISSION_DEADLINE", "20s") // the load test counts an answer that no store was in time for as a failure
	w := start(t)
	w.tenants(waysTenants, "python", "go", "typescript", "k6-a", "k6-b")
	t.Run("python", func(t *testing.T) {
		w := w.on(t)
		out := run(t, 0, filepath.Join(root, "docs/examples/python"), w.as("python"), "python3", "reserve_settle.py")
		w.mustShowAllEndings("python", "example-python", out)
	})
	t.Run("go over gRPC", func(t *testing.T) {
		w := w.on(t)
		out := run(t, 0, root, w.as("go"), "go", "run", "docs/examples/go/reserve_settle.go")
		w.mustShowAllEndings("go", "example-go", out)
	})
	t.Run("typescript", func(t *testing.T) {
		w := w.on(t)
		dir := npm(t, filepath.Join(root, "docs/examples/typescript"))
		run(t, 0, dir, os.Environ(), "npm", "run", "--silent", "build")
		out := run(t, 0, dir, w.as("typescript"), "npm", "run", "--silent", "start")
		w.mustShowAllEndings("typescript", "example-typescript", out)
	})
	t.Run("kafka producers", func(t *testing.T) { w.on(t).producers() })
	t.Run("k6", func(t *testing.T) { w.on(t).k6() })
	w.mustAudit()
}

// as is the environment of a program that asks for a tenant.
func (w *world) as(tenant string) []string { return append(w.Environ(), "WEIR_KEY="+w.keys[tenant]) }

// mustShowAllEndings checks what an example printed, and what stands in the ledger: a success, an error, a cut stream,
// a wait, and a quota that was not retried.
func (w *world) mustShowAllEndings(tenant, agent, out string) {
	w.t.Helper()
	for _, want := range []string{"ok settled SUCCESS", "error settled FAILED 0", "cut settled PARTIAL", "estimated", "waiting rate_limited concurrency", "waited settled SUCCESS", "quota "} {
		if !strings.Contains(out, want) {
			w.t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "quota "); n != 1 || strings.Contains(out, "waiting tenant_quota_exceeded") {
		w.t.Errorf("the quota was retried:\n%s", out)
	}
	await(w.t, "rows of "+agent, func() bool {
		rows, err := w.Select(w.t.Context(), fmt.Sprintf(`SELECT toString(countIf(status = 'FAILED' AND error_code = 'overloaded_error' AND raw_cost_usd = 0)) AS failed,
			toString(countIf(status = 'PARTIAL' AND has(flags, 'estimated'))) AS cut, toString(countIf(status = 'SUCCESS') > 3) AS ok
			FROM agent_cost_ledger WHERE tenant_id = '%s' AND agent_id IN ('%s')`, tenant, agent))
		return err == nil && len(rows) == 1 && rows[0]["failed"] == "1" && rows[0]["cut"] == "1" && rows[0]["ok"] == "1"
	})
}

// producers: one event by kcat and one by confluent-kafka end on the bill; finance reads it with curl.
func (w *world) producers() {
	kcat(w.t)
	examples := filepath.Join(root, "docs/examples/kafka")
	run(w.t, 0, examples, w.Environ(), "sh", "kcat.sh", "producer", "by-kcat")
	run(w.t, 0, examples, w.Environ(), python(w.t, filepath.Join(examples, "requirements.txt")), "produce.py", "producer", "by-python")
	query := "SELECT cost_center, sum(raw_cost_usd) AS raw, sum(billed_cost_usd) AS billed FROM bill WHERE tenant_id = 'producer' GROUP BY cost_center FORMAT CSV"
	await(w.t, "both events on the bill", func() bool {
		out, err := exec.CommandContext(w.t.Context(), "curl", "-sS", "--fail-with-body", w.Env("WEIR_CLICKHOUSE_URL")+"/?database=weir",
			"-u", "finance:"+w.Env("WEIR_FINANCE_PASSWORD"), "--data-binary", query).Output()
		return err == nil && strings.TrimSpace(string(out)) == `"research",0.0076,0.00836`
	})
	for _, id := range []string{"by-kcat", "by-python"} {
		if out := w.weir("find", id); !strings.Contains(out, "producer") {
			w.t.Errorf("find %s:\n%s", id, out)
		}
	}
}

// k6 checks the script's types and runs it on the stand-in: thresholds that hold exit 0, one that cannot exits 99.
func (w *world) k6() {
	dir := npm(w.t, filepath.Join(root, "loadtest/k6"))
	run(w.t, 0, dir, os.Environ(), "npm", "run", "--silent", "check")
	summary := filepath.Join(w.t.TempDir(), "summary.json")
	var calls int64 // settled in all
	script := func(code int, p95 string) string {
		args := []string{"standin/run.js"}
		for _, v := range []string{"WEIR_URL=" + w.gates.pick(), "WEIR_KEYS=" + w.keys["k6-a"] + "," + w.keys["k6-b"], "WEIR_DURATION=3s", "WEIR_RATE=10", "WEIR_P95=" + p95, "WEIR_SUMMARY=" + summary} {
			args = append(args, "-e", v)
		}
		out := run(w.t, code, dir, os.Environ(), "node", append(args, "reserve_settle.js")...)
		var settled int64
		if _, err := fmt.Sscanf(out, "settled %d, refused 0,", &settled); err != nil || settled == 0 {
			w.t.Fatalf("k6 on the stand-in:\n%s", out)
		}
		calls += settled
		return out
	}
	script(0, "60000") // holds on any machine
	raw, err := os.ReadFile(summary)
	if err != nil || !json.Valid(raw) {
		w.t.Errorf("summary: %v", err)
	}
	if out := script(99, "0"); !strings.Contains(out, "FAIL http_req_duration{name:reserve} p(95)<0") {
		w.t.Errorf("an impossible threshold:\n%s", out)
	}
	await(w.t, "both tenants' calls on the bill", func() bool {
		bill, err := w.Bill(w.t.Context())
		a, b := bill.Total("k6-a").Calls, bill.Total("k6-b").Calls
		return err == nil && a > 0 && b > 0 && a+b == calls
	})
}
