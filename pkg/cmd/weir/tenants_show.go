package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

func (a *app) tenantsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show [TENANT…]", Short: "Print the contracts in force",
		RunE: func(c *cobra.Command, args []string) error {
			return a.tenantsShow(c.Context(), c.OutOrStdout(), args, time.Now().UTC())
		},
	}
}

// tenantView is a contract as people read it: all of it. A limit that is not set is null.
type tenantView struct {
	ID             string `json:"id"`
	Plan           string `json:"plan,omitempty"`
	EffectiveFrom  string `json:"effective_from"`
	MinuteUSD      string `json:"minute_usd"`
	DayUSD         string `json:"day_usd"`
	MonthUSD       string `json:"month_usd"`
	Count          string `json:"count"`
	SoftDay        bool   `json:"soft_day"`
	Overrun        string `json:"overrun_percent"`
	Month          string `json:"month"`
	Concurrency    int64  `json:"concurrency"`
	RPM            *int64 `json:"requests_per_minute"`
	InputTPM       *int64 `json:"input_tokens_per_minute"`
	OutputTPM      *int64 `json:"output_tokens_per_minute"`
	OpenExecutions *int64 `json:"open_executions"`
	Markup         string `json:"markup_percent"`
	// UnknownPrice is refuse or dearest.
	UnknownPrice string        `json:"unknown_price"`
	Timezone     string        `json:"timezone"`
	Ladder       ladderView    `json:"ladder"`
	Execution    executionView `json:"execution"`
	Scopes       []scopeView   `json:"scopes"`
	// Identities are kind:id, e.g. slack:T0123.
	Identities []string `json:"identities"`
	Removed    bool     `json:"removed,omitempty"`
	Versions   int      `json:"versions"`
}

// executionView are the limits of one root execution; null is none.
type executionView struct {
	MaxCostUSD *string `json:"max_cost_usd"`
	MaxDepth   *int64  `json:"max_depth"`
	MaxCalls   *int64  `json:"max_calls"`
}

func contractView(id string, h tenant.History, c tenant.Contract) tenantView {
	return tenantView{
		ID: id, Plan: c.Plan, EffectiveFrom: c.EffectiveFrom.UTC().Format(time.RFC3339),
		MinuteUSD: c.Ceilings.Minute.USD().String(), DayUSD: c.Ceilings.Day.USD().String(), MonthUSD: c.Ceilings.Month.USD().String(),
		Count: string(cmp.Or(c.Count, tenant.CountRaw)), SoftDay: c.SoftDay, Overrun: c.Overrun.String(), Month: string(cmp.Or(c.Month, tenant.MonthCalendar)),
		Concurrency: c.Limits.Concurrency, RPM: limit(c.Limits.RequestsPerMinute), InputTPM: limit(c.Limits.InputTokensPerMinute),
		OutputTPM: limit(c.Limits.OutputTokensPerMinute), OpenExecutions: limit(c.Limits.OpenExecutions), Markup: c.Markup.String(),
		UnknownPrice: string(cmp.Or(c.UnknownPrice, tenant.UnknownPriceRefuse)), Timezone: cmp.Or(c.Timezone, "UTC"), Ladder: ladderOf(c),
		Execution: executionView{dollarLimit(c.Execution.MaxCost), limit(int64(c.Execution.MaxDepth)), limit(c.Execution.MaxCalls)},
		Scopes:    scopesOf(c), Identities: append([]string{}, c.Identities...), Removed: c.Removed, Versions: len(h.Versions),
	}
}

// limit is nil for none.
func limit(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func dollarLimit(n money.Nano) *string {
	if n == 0 {
		return nil
	}
	return dollarText(n)
}

func limitText(n *int64) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatInt(*n, 10)
}

func (a *app) tenantsShow(ctx context.Context, out io.Writer, ids []string, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	current, err := readTenants(ctx, conn)
	if err != nil {
		return err
	}
	named := len(ids) > 0
	if !named {
		ids = current.IDs()
	}
	views := make([]tenantView, 0, len(ids))
	for _, id := range ids {
		h, ok := current.History(id)
		if !ok {
			return no("no tenant %q", id)
		}
		c, _ := h.At(now)
		if c.Removed && !named {
			continue
		}
		views = append(views, contractView(id, h, c))
	}
	if a.json {
		return printJSON(out, map[string]any{"tenants": views})
	}
	return printTenants(out, views)
}

func printTenants(out io.Writer, views []tenantView) error {
	w := newTable(out)
	fmt.Fprintln(w, "TENANT\tPLAN\tMINUTE\tDAY\tMONTH\tCONCURRENCY\tRPM\tINPUT TPM\tOUTPUT TPM\tMARKUP %\tLADDER %\tZONE")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t$%s\t$%s\t$%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.Plan, v.MinuteUSD, v.DayUSD, v.MonthUSD, v.Concurrency,
			limitText(v.RPM), limitText(v.InputTPM), limitText(v.OutputTPM), v.Markup, v.Ladder.short(), v.Timezone)
	}
	printScopes(w, views)
	head := "\nTENANT\tALSO\n"
	for _, v := range views {
		if also := v.also(); len(also) > 0 {
			fmt.Fprintf(w, "%s%s\t%s\n", head, v.ID, strings.Join(also, "; "))
			head = ""
		}
	}
	return w.Flush()
}

// also is what a contract says beside the tables, in the words of the tenants file: what is as it is without a word is left out.
func (v tenantView) also() []string {
	var out []string
	say := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(v.Removed, "removed")
	say(!v.SoftDay, "soft: []")
	say(v.SoftDay && v.Overrun != tenant.DefaultOverrunPercent, "overrun_percent: %s", v.Overrun)
	say(v.Count != string(tenant.CountRaw), "count: %s", v.Count)
	say(v.Month != string(tenant.MonthCalendar), "month: %s", v.Month)
	say(v.UnknownPrice != string(tenant.UnknownPriceRefuse), "unknown_price: %s", v.UnknownPrice)
	say(v.OpenExecutions != nil, "open_executions: %s", limitText(v.OpenExecutions))
	if x := v.Execution; x != (executionView{}) {
		usd := "none"
		if x.MaxCostUSD != nil {
			usd = "$" + *x.MaxCostUSD
		}
		say(true, "execution: max_cost_usd %s, max_depth %s, max_calls %s", usd, limitText(x.MaxDepth), limitText(x.MaxCalls))
	}
	say(len(v.Identities) > 0, "identities: %s", strings.Join(v.Identities, ", "))
	return out
}
