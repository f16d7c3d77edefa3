package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) billCmd() *cobra.Command {
	var tenant, month, by string
	var wait time.Duration
	c := &cobra.Command{
		Use: "bill --tenant T --month YYYY-MM", Short: "What a tenant owes, from the ledger",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if month == "" {
				month = time.Now().UTC().Format("2006-01")
			}
			return a.bill(c.Context(), c.OutOrStdout(), tenant, month, by, wait)
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "tenant")
	c.Flags().StringVar(&month, "month", "", "month as YYYY-MM (default: this one, UTC)")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait for records that are still on their way")
	c.Flags().StringVar(&by, "by", "", "cost_center, agent, api_key, model or day")
	return c
}

// billLine is one group of a bill. Costs are null where every row in it is unpriced.
type billLine struct {
	By           string  `json:"by"`
	RawCostUSD   *string `json:"raw_cost_usd"`
	BilledUSD    *string `json:"billed_cost_usd"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Calls        int64   `json:"calls"`
	Unpriced     int64   `json:"unpriced"`
	Estimated    int64   `json:"estimated"`
}

// billAnswer is the whole bill. AsOf is the newest record in it; Lag counts records that are not in the ledger yet.
type billAnswer struct {
	Tenant string     `json:"tenant"`
	Month  string     `json:"month"`
	AsOf   *string    `json:"as_of"`
	Lag    int64      `json:"lag"`
	Lines  []billLine `json:"lines,omitempty"`
	billLine
}

// billColumns are the columns of the ledger that a bill can be grouped by.
func billColumns() map[string]string {
	return map[string]string{
		"": "''", "cost_center": "cost_center", "agent": "agent_id", "model": "model_or_resource", "api_key": "api_key_id", "day": "toString(day)",
	}
}

func (a *app) bill(ctx context.Context, out io.Writer, tenant, month, by string, wait time.Duration) error {
	column, ok := billColumns()[by]
	when, err := time.Parse("2006-01", month)
	switch {
	case tenant == "":
		return misuse("bill needs --tenant")
	case err != nil:
		return misuse("--month %q is not YYYY-MM", month)
	case !ok:
		return misuse("--by is cost_center, agent, api_key, model or day, not %q", by)
	}
	db, err := a.clickhouse(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	answer := billAnswer{Tenant: tenant, Month: month}
	if answer.Lag, err = waitQuiet(ctx, conn, wayToTheBill(), wait); err != nil {
		return err
	}
	period := uint32(when.Year()*100 + int(when.Month()))
	query := func(column string) ([][]string, error) {
		rows, err := db.Select(ctx, `SELECT `+column+` AS g, toString(sum(raw_cost_usd)), toString(sum(markup_cost_usd)),
			toString(sum(input_tokens)), toString(sum(output_tokens)),
			toString(sum(multiIf(entry_kind = 'REVERSAL', -1, entry_kind IN ('USAGE', 'UNSETTLED'), 1, 0))),
			toString(sum(if(has(flags, 'unpriced'), if(entry_kind = 'REVERSAL', -1, 1), 0))),
			toString(sum(if(has(flags, 'estimated'), if(entry_kind = 'REVERSAL', -1, 1), 0))), max(recorded_at)
			FROM agent_cost_ledger WHERE tenant_id = ? AND posted_period = ? GROUP BY g ORDER BY g`, tenant, period)
		if err != nil {
			return nil, awayFrom("clickhouse", err)
		}
		return rows, nil
	}
	total, err := query("''")
	if err != nil {
		return err
	}
	if len(total) == 0 {
		return no("nothing on the bill of %q for %s (lag: %d records)", tenant, month, answer.Lag)
	}
	answer.billLine, answer.AsOf = parseBillLine(total[0]), &total[0][8]
	if by != "" {
		rows, err := query(column)
		if err != nil {
			return err
		}
		for _, row := range rows {
			answer.Lines = append(answer.Lines, parseBillLine(row))
		}
	}
	if a.json {
		return printJSON(out, answer)
	}
	return answer.print(out, by)
}

func parseBillLine(row []string) billLine {
	n := func(i int) int64 { v, _ := strconv.ParseInt(row[i], 10, 64); return v } // our own toString of an integer
	return billLine{By: row[0], RawCostUSD: decimalText(row[1]), BilledUSD: decimalText(row[2]), InputTokens: n(3), OutputTokens: n(4), Calls: n(5), Unpriced: n(6), Estimated: n(7)}
}

// decimalText is nil for NULL: unpriced is never zero.
func decimalText(s string) *string {
	if s == "NULL" {
		return nil
	}
	return &s
}

func (b billAnswer) print(out io.Writer, by string) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tcalls\tinput tokens\toutput tokens\traw USD\tbilled USD\tunpriced\testimated\t\n", cmp.Or(by, "tenant"))
	for _, l := range b.Lines {
		l.print(w, cmp.Or(l.By, "(none)"))
	}
	b.billLine.print(w, b.Tenant)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "as of %s, %d records not in the ledger yet\n", *b.AsOf, b.Lag)
	return err
}

func (l billLine) print(w io.Writer, name string) {
	text := func(s *string) string {
		if s == nil {
			return "unpriced"
		}
		return *s
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t\n", name, l.Calls, l.InputTokens, l.OutputTokens, text(l.RawCostUSD), text(l.BilledUSD), l.Unpriced, l.Estimated)
}
