package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/gen/weirv1"
)

func (a *app) keysListCmd() *cobra.Command {
	var tenant string
	list := &cobra.Command{
		Use: "list", Short: "Print the keys by their ids, revoked ones too; never what proves them", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.keysList(c.Context(), c.OutOrStdout(), tenant, time.Now())
		},
	}
	list.Flags().StringVar(&tenant, "tenant", "", "only the keys that act for this tenant")
	return list
}

// keyView is a key as people read it: neither the key nor its hash.
type keyView struct {
	KeyID     string     `json:"key_id"`
	Tenants   []string   `json:"tenants"`
	Label     string     `json:"label,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	// Removed are those of its tenants that are there no longer: it only ends what they have open.
	Removed []string `json:"removed_tenants,omitempty"`
}

func keyViewOf(m *weirv1.ApiKey) keyView {
	v := keyView{KeyID: m.GetKeyId(), Tenants: m.GetTenantIds(), Label: m.GetLabel(), CreatedAt: m.GetCreatedAt().AsTime()}
	if m.GetRevokedAt() != nil {
		at := m.GetRevokedAt().AsTime()
		v.RevokedAt = &at
	}
	return v
}

func (a *app) keysList(ctx context.Context, out io.Writer, tenant string, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	known, err := readKeys(ctx, conn)
	if err != nil {
		return err
	}
	tenants, err := readTenants(ctx, conn)
	if err != nil {
		return err
	}
	views := []keyView{}
	for _, m := range known.List() {
		if tenant != "" && !slices.Contains(m.GetTenantIds(), tenant) {
			continue
		}
		v := keyViewOf(m)
		for _, id := range v.Tenants {
			if k, there := tenants.At(id, now); !there || k.Removed {
				v.Removed = append(v.Removed, id)
			}
		}
		views = append(views, v)
	}
	if a.json {
		return printJSON(out, map[string]any{"keys": views})
	}
	w := newTable(out)
	fmt.Fprintln(w, "KEY ID\tTENANTS\tCREATED\tREVOKED\tLABEL")
	for _, v := range views {
		revoked := "-"
		if v.RevokedAt != nil {
			revoked = v.RevokedAt.Format(time.RFC3339)
		}
		named := slices.Clone(v.Tenants)
		for i, id := range named {
			if slices.Contains(v.Removed, id) {
				named[i] += " (removed)"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.KeyID, strings.Join(named, ","), v.CreatedAt.Format(time.RFC3339), revoked, v.Label)
	}
	return w.Flush()
}
