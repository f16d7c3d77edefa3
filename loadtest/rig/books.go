package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/loadtest/oracle"
)

// Select runs one query as the user finance, over HTTP, and returns its rows by column name. Every value is text, as
// the query must format it.
func (r *Rig) Select(ctx context.Context, query string) ([]map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Env("WEIR_CLICKHOUSE_URL")+"/?database=weir", strings.NewReader(query+" FORMAT JSONEachRow"))
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	req.SetBasicAuth("finance", r.Env("WEIR_FINANCE_PASSWORD"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("select: %s: %s", resp.Status, bytes.TrimSpace(body))
	}
	var rows []map[string]string
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row map[string]string
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("select: row %q: %w", lines.Text(), err)
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}

// billQuery adds the ledger up with a plain sum. A reversal takes back the call whose entry it reverses.
const billQuery = `SELECT tenant_id, cost_center, agent_id,
  toString(sum(multiIf(entry_kind = 'REVERSAL', -1, entry_kind IN ('USAGE', 'UNSETTLED'), 1, 0))) AS calls,
  toString(sum(input_tokens)) AS input, toString(sum(output_tokens)) AS output,
  toString(sum(raw_cost_usd)) AS raw, toString(sum(markup_cost_usd)) AS billed
  FROM agent_cost_ledger WHERE entry_kind != 'CIRCUIT_BREAKER_TERMINATION'
  GROUP BY tenant_id, cost_center, agent_id ORDER BY tenant_id, cost_center, agent_id`

// Bill is what stands in the ledger now, over all tenants and months.
func (r *Rig) Bill(ctx context.Context) (oracle.Bill, error) {
	rows, err := r.Select(ctx, billQuery)
	if err != nil {
		return nil, err
	}
	var bill oracle.Bill
	for _, row := range rows {
		line := oracle.Line{Key: oracle.Key{Tenant: row["tenant_id"], CostCenter: row["cost_center"], Agent: row["agent_id"]}}
		for name, to := range map[string]*int64{"calls": &line.Calls, "input": &line.Input, "output": &line.Output} {
			if *to, err = strconv.ParseInt(row[name], 10, 64); err != nil {
				return nil, fmt.Errorf("bill: %s of %v: %w", name, row, err)
			}
		}
		var okRaw, okBilled bool
		line.Raw, okRaw = new(big.Rat).SetString(row["raw"])
		line.Billed, okBilled = new(big.Rat).SetString(row["billed"])
		if !okRaw || !okBilled {
			return nil, fmt.Errorf("bill: costs of %v", row)
		}
		bill = append(bill, line)
	}
	return bill, nil
}

// AwaitBill waits until the bill in the ledger is want, but no longer than within; it returns what stands there then.
func (r *Rig) AwaitBill(ctx context.Context, want oracle.Bill, within time.Duration) (oracle.Bill, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var got oracle.Bill
	err := Poll(ctx, 200*time.Millisecond, func() (bool, error) {
		var err error
		got, err = r.Bill(ctx)
		return err == nil && len(want.Differences(got)) == 0, nil
	})
	if err != nil && len(got) == 0 {
		return nil, err
	}
	return got, nil
}

// Poll calls done at once and then at every step until it says true or fails, or ctx ends.
func Poll(ctx context.Context, step time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Metric adds up a counter or gauge of one service process over its labels; 0 if it has none. Labels like `topic="x"`
// narrow it.
func Metric(ctx context.Context, address, name string, labels ...string) (total int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if rest, named := strings.CutPrefix(series, name); !ok || !named || rest != "" && rest[0] != '{' || !hasAll(rest, labels) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metrics: %q: %w", lines.Text(), err)
		}
		total += int64(n)
	}
	return total, lines.Err()
}

func hasAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
