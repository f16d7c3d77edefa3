package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/pgstore"
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
			"Files that are applied at the same time are applied one after the other, by a lock in Postgres: one that still waits\n" +
			"after 30 s exits 3 and has published nothing.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.tenantsApply(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), args[0], prune)
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

func (a *app) tenantsApply(ctx context.Context, out, notes io.Writer, file string, prune bool) error {
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
	changes, now, err := a.publishTenants(ctx, conn, parsed, file, prune)
	if err != nil {
		return err
	}
	if err := a.waitApplied(ctx, conn, topics.CatalogTenants); err != nil {
		return err
	}
	if err := warnSavingModels(ctx, conn, notes, parsed, now); err != nil {
		return err
	}
	if err := a.warnRemoved(ctx, conn, notes, changes, now); err != nil {
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

// publishTenants compares the file with the catalog and publishes what differs. Nobody else may publish in between, or an
// identity could become two tenants', and a version of a tenant be lost from its history.
func (a *app) publishTenants(ctx context.Context, conn *bus.Conn, parsed tenantsfile.File, file string, prune bool) (changes []tenantChange, now time.Time, err error) {
	lead, err := a.lead(ctx)
	if err != nil {
		return nil, now, err
	}
	defer func() { _ = lead.Close(context.WithoutCancel(ctx)) }()
	now = time.Now().UTC() // not before the last change
	current, err := readTenants(ctx, conn)
	if err != nil {
		return nil, now, err
	}
	if !prune { // else nobody stays beside the file
		if err := parsed.Taken(latest(current)); err != nil {
			return nil, now, misuse("%s: %w", file, err)
		}
	}
	changes, records, err := planTenants(parsed, current, prune, now)
	if err != nil || len(records) == 0 {
		return changes, now, err
	}
	if err := lead.Check(ctx); err != nil {
		return nil, now, awayFrom("postgres", err)
	}
	return changes, now, send(ctx, conn, topics.CatalogTenants, records)
}

// leadWithin is how long an apply waits for the one before it.
const leadWithin = 30 * time.Second

// lead is a right that one process has at a time; pgstore.Lead says how it ends.
type lead interface {
	Check(ctx context.Context) error
	Close(ctx context.Context) error
}

// leadTenants takes the right to change the catalog of tenants.
func (a *app) leadTenants(ctx context.Context) (lead, error) {
	address, err := a.address("postgres", "WEIR_POSTGRES")
	if err != nil {
		return nil, err
	}
	pg, err := pgstore.Open(ctx, address)
	if err != nil {
		return nil, misuse("%w", err)
	}
	defer pg.Close() // the lead has a connection of its own
	ctx, cancel := context.WithTimeout(ctx, leadWithin+10*time.Second)
	defer cancel()
	l, err := pg.LeadTenants(ctx, leadWithin)
	if errors.Is(err, pgstore.ErrLed) {
		return nil, fmt.Errorf("another `weir tenants apply` was still at work after %s; nothing was published, try again", leadWithin)
	}
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	return l, nil
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
