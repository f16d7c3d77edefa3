package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/pgstore"
)

// warnRemoved tells what lives on of tenants that were removed: keys that still authenticate, and holds that nothing but a settle, a
// release or the end of their lease will end.
func (a *app) warnRemoved(ctx context.Context, conn *bus.Conn, notes io.Writer, changes []tenantChange, now time.Time) error {
	var removed []string
	for _, ch := range changes {
		if ch.Change == "removed" {
			removed = append(removed, ch.ID)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	keys, err := readKeys(ctx, conn)
	if err != nil {
		return err
	}
	for _, id := range removed {
		for _, m := range keys.List() {
			if m.GetRevokedAt() == nil && slices.Contains(m.GetTenantIds(), id) {
				fmt.Fprintf(notes, "weir: warning: key %s still acts for %s, to settle and release what is open (weir keys revoke %s)\n", m.GetKeyId(), id, m.GetKeyId())
			}
		}
	}
	open, err := a.openHolds(ctx, removed, now)
	for _, id := range removed {
		if open[id] > 0 {
			fmt.Fprintf(notes, "weir: warning: %s has %d open reservations: each is charged its estimate, unless it is settled or released before its lease ends\n", id, open[id])
		}
	}
	if err != nil {
		fmt.Fprintln(notes, "weir: warning: whether reservations of what was removed are open is not known:", err)
	}
	return nil
}

// openHolds counts the reservations of tenants that have not ended.
func (a *app) openHolds(ctx context.Context, tenants []string, now time.Time) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storesWithin)
	defer cancel()
	address, err := a.address("postgres", "WEIR_POSTGRES")
	if err != nil {
		return nil, err
	}
	pg, err := pgstore.Open(ctx, address)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	defer pg.Close()
	row, _, err := pg.EpochRow(ctx)
	if err != nil {
		return nil, awayFrom("postgres", err)
	}
	if row.Layout != budgetstore.Layout {
		return nil, otherLayout(row.Layout)
	}
	if address, err = a.address("redis", "WEIR_REDIS"); err != nil {
		return nil, err
	}
	store, err := budgetstore.Open(ctx, address, budgetstore.Options{})
	if err != nil {
		return nil, awayFrom("redis", err)
	}
	defer func() { _ = store.Close() }()
	out := map[string]int64{}
	for _, id := range tenants {
		b, err := store.Budget(ctx, budgetstore.Tenant{ID: id, Epoch: row.Epoch}, admit.CalendarAt(now, time.UTC), admit.Limits{})
		if errors.Is(err, budgetstore.ErrLost) || errors.Is(err, budgetstore.ErrEpoch) { // it never reserved anything here
			continue
		}
		if err != nil {
			return out, awayFrom("redis", err)
		}
		out[id] = b.Concurrency + b.Expiring
	}
	return out, nil
}
