package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/tenantsfile"
)

func (a *app) tenantsCmd() *cobra.Command {
	return group("tenants", "Tenants with their limits, ceilings and markup", a.tenantsApplyCmd(), a.tenantsShowCmd())
}

func (a *app) tenantsApplyCmd() *cobra.Command {
	var prune bool
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make the tenants as the file says; all or nothing, effective now",
		Long:  "Apply upserts every tenant of the file. It returns once every running service has applied the change.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.tenantsApply(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), args[0], prune, time.Now().UTC())
		},
	}
	c.Flags().BoolVar(&prune, "prune", false, "remove the tenants that the file does not name")
	return c
}

// tenantChange is one line of the answer of `tenants apply`.
type tenantChange struct {
	ID     string `json:"id"`
	Change string `json:"change"` // created, changed, unchanged, removed
}

func (a *app) tenantsApply(ctx context.Context, out, notes io.Writer, file string, prune bool, now time.Time) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return misuse("%w", err)
	}
	parsed, err := tenantsfile.Parse(data)
	if err != nil {
		return misuse("%s: %w", file, err)
	}
	for _, warning := range parsed.Warnings() {
		fmt.Fprintln(notes, "weir: warning:", warning)
	}
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	current := catalog.NewTenants(warnBad)
	if err := readTable(ctx, conn, topics.CatalogTenants, current.Apply); err != nil {
		return err
	}
	if !prune { // else nobody stays beside the file
		if err := parsed.Taken(latest(current)); err != nil {
			return misuse("%s: %w", file, err)
		}
	}
	changes, records, err := planTenants(parsed, current, prune, now)
	if err != nil {
		return err
	}
	if err := a.publish(ctx, conn, topics.CatalogTenants, records); err != nil {
		return err
	}
	if err := warnSavingModels(ctx, conn, parsed, now); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, map[string]any{"tenants": changes})
	}
	for _, ch := range changes {
		fmt.Fprintf(out, "%s %s\n", ch.ID, ch.Change)
	}
	return nil
}

// latest is every tenant's last contract.
func latest(current *catalog.Tenants) map[string]tenant.Contract {
	out := map[string]tenant.Contract{}
	for _, id := range current.IDs() {
		h, _ := current.History(id)
		out[id] = h.Versions[len(h.Versions)-1]
	}
	return out
}

// planTenants compares file and catalog; a first contract is in force from the beginning, later ones from now.
func planTenants(f tenantsfile.File, current *catalog.Tenants, prune bool, now time.Time) ([]tenantChange, []bus.Record, error) {
	var changes []tenantChange
	var records []bus.Record
	add := func(h tenant.History, c tenant.Contract, what string) error {
		next, err := h.With(c)
		if err != nil {
			return misuse("%w", err)
		}
		value, err := catalog.EncodeTenant(next)
		if err != nil {
			return misuse("%w", err)
		}
		changes = append(changes, tenantChange{h.ID, what})
		records = append(records, bus.NewRecord(topics.CatalogTenants, h.ID, []byte(h.ID), value))
		return nil
	}
	for _, id := range f.IDs() {
		c, what := f.Contracts[id], "created"
		c.PublishedAt, c.EffectiveFrom = now, time.Unix(0, 0).UTC()
		h, known := current.History(id)
		if known {
			if h.Versions[len(h.Versions)-1].Equal(c) {
				changes = append(changes, tenantChange{id, "unchanged"})
				continue
			}
			c.EffectiveFrom, what = now, "changed"
		}
		h.ID = id
		if err := add(h, c, what); err != nil {
			return nil, nil, err
		}
	}
	if prune {
		for _, id := range current.IDs() {
			h, _ := current.History(id)
			last := h.Versions[len(h.Versions)-1]
			if _, named := f.Contracts[id]; named || last.Removed {
				continue
			}
			last.Removed, last.EffectiveFrom, last.PublishedAt = true, now, now
			if err := add(h, last, "removed"); err != nil {
				return nil, nil, err
			}
		}
	}
	return changes, records, nil
}

func (a *app) tenantsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show [TENANT…]", Short: "Print the contracts in force",
		RunE: func(c *cobra.Command, args []string) error {
			return a.tenantsShow(c.Context(), c.OutOrStdout(), args, time.Now().UTC())
		},
	}
}

// tenantView is a contract as people read it.
type tenantView struct {
	ID          string `json:"id"`
	Plan        string `json:"plan,omitempty"`
	MinuteUSD   string `json:"minute_usd"`
	DayUSD      string `json:"day_usd"`
	MonthUSD    string `json:"month_usd"`
	SoftDay     bool   `json:"soft_day"`
	Concurrency int64  `json:"concurrency"`
	RPM         int64  `json:"requests_per_minute"`
	InputTPM    int64  `json:"input_tokens_per_minute"`
	OutputTPM   int64  `json:"output_tokens_per_minute"`
	Markup      string `json:"markup_percent"`
	// UnknownPrice is refuse or dearest.
	UnknownPrice string      `json:"unknown_price"`
	Timezone     string      `json:"timezone"`
	Ladder       ladderView  `json:"ladder"`
	Scopes       []scopeView `json:"scopes,omitempty"`
	Removed      bool        `json:"removed,omitempty"`
	Versions     int         `json:"versions"`
}

func (a *app) tenantsShow(ctx context.Context, out io.Writer, ids []string, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	current := catalog.NewTenants(warnBad)
	if err := readTable(ctx, conn, topics.CatalogTenants, current.Apply); err != nil {
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
		zone := c.Timezone
		if zone == "" {
			zone = "UTC"
		}
		views = append(views, tenantView{
			ID: id, Plan: c.Plan, MinuteUSD: c.Ceilings.Minute.USD().String(), DayUSD: c.Ceilings.Day.USD().String(),
			MonthUSD: c.Ceilings.Month.USD().String(), SoftDay: c.SoftDay, Concurrency: c.Limits.Concurrency, RPM: c.Limits.RequestsPerMinute,
			InputTPM: c.Limits.InputTokensPerMinute, OutputTPM: c.Limits.OutputTokensPerMinute, Markup: c.Markup.String(),
			UnknownPrice: string(cmp.Or(c.UnknownPrice, tenant.UnknownPriceRefuse)), Timezone: zone, Ladder: ladderOf(c), Scopes: scopesOf(c), Removed: c.Removed, Versions: len(h.Versions),
		})
	}
	if a.json {
		return printJSON(out, map[string]any{"tenants": views})
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tPLAN\tMINUTE\tDAY\tMONTH\tCONCURRENCY\tRPM\tMARKUP %\tLADDER %\tZONE")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t$%s\t$%s\t$%s\t%d\t%d\t%s\t%s\t%s\n", v.ID, v.Plan, v.MinuteUSD, v.DayUSD, v.MonthUSD, v.Concurrency, v.RPM, v.Markup,
			v.Ladder.short(), v.Timezone)
	}
	printScopes(w, views)
	return w.Flush()
}
