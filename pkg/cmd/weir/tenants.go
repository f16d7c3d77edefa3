package main

import (
	"context"
	"fmt"
	"io"
	"os"
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
		Long: "Apply upserts every tenant of the file. It returns once every running service has applied the change.\n" +
			"Of files that are applied at the same time the last one wins for a tenant; an identity that two of them give to different\n" +
			"tenants is nobody's: at least one apply says so, and exits 1.",
		Args: cobra.ExactArgs(1),
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
	if err := warnSavingModels(ctx, conn, notes, parsed, now); err != nil {
		return err
	}
	if a.json {
		if err := printJSON(out, map[string]any{"tenants": changes}); err != nil {
			return err
		}
	} else {
		for _, ch := range changes {
			fmt.Fprintf(out, "%s %s\n", ch.ID, ch.Change)
		}
	}
	return stillOwn(ctx, conn, parsed)
}

// stillOwn looks again, after the file is published, whether an identity of it is another tenant's: what was applied
// at the same time was not there to be seen before. Of two such files the one that is published last sees both.
func stillOwn(ctx context.Context, conn *bus.Conn, applied tenantsfile.File) error {
	current := catalog.NewTenants(warnBad)
	if err := readTable(ctx, conn, topics.CatalogTenants, current.Apply); err != nil {
		return err
	}
	if err := applied.Taken(latest(current)); err != nil {
		return no("published, but so was another file at the same time, and an identity of two tenants is nobody's until one of them gives it up: %w", err)
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
