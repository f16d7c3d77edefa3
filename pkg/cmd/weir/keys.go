package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/gen/weirv1"
	"github.com/weir-project/weir/pkg/identity"
)

func (a *app) keysCmd() *cobra.Command {
	var tenants []string
	var label string
	create := &cobra.Command{
		Use: "create --tenant T", Short: "Make a key and show it once", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(tenants) == 0 {
				return misuse("keys create needs --tenant")
			}
			return a.keysCreate(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), tenants, label, time.Now().UTC())
		},
	}
	create.Flags().StringSliceVar(&tenants, "tenant", nil, "tenant that the key acts for; several make a service credential")
	create.Flags().StringVar(&label, "label", "", "what the key is for")
	revoke := &cobra.Command{
		Use: "revoke KEY-ID", Short: "End a key at once", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.keysRevoke(c.Context(), c.OutOrStdout(), args[0], time.Now().UTC())
		},
	}
	return group("keys", "API keys; only their hashes are stored", create, a.keysListCmd(), revoke)
}

// keysCreate writes the key alone to out, so that a script can take it, and its id to notes: revoke and the tenants file's
// scopes name it.
func (a *app) keysCreate(ctx context.Context, out, notes io.Writer, tenants []string, label string, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	known, err := readTenants(ctx, conn)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if c, ok := known.At(t, now); !ok || c.Removed {
			return no("no tenant %q: apply it first (weir tenants apply)", t)
		}
	}
	key, err := identity.NewAPIKey(rand.Reader)
	if err != nil {
		return err
	}
	m := &weirv1.ApiKey{KeyId: key.ID, SecretHash: key.Hash, TenantIds: tenants, CreatedAt: timestamppb.New(now), Label: label}
	if err := produceKey(ctx, conn, m); err != nil {
		return err
	}
	// Shown before the services are waited for: a key that is published but was never shown could not even be revoked.
	if a.json {
		err = printJSON(out, map[string]any{"key": key.Text, "key_id": key.ID, "tenants": tenants})
	} else {
		_, err = fmt.Fprintln(out, key.Text)
		fmt.Fprintln(notes, "key id:", key.ID)
	}
	return errors.Join(err, a.waitApplied(ctx, conn, topics.CatalogApikeys))
}

func (a *app) keysRevoke(ctx context.Context, out io.Writer, keyID string, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	known, err := readKeys(ctx, conn)
	if err != nil {
		return err
	}
	m, ok := known.Get(keyID)
	if !ok {
		return no("no key %q", keyID)
	}
	m = proto.Clone(m).(*weirv1.ApiKey)
	if m.GetRevokedAt() == nil {
		m.RevokedAt = timestamppb.New(now)
	}
	if err := errors.Join(produceKey(ctx, conn, m), a.waitApplied(ctx, conn, topics.CatalogApikeys)); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, map[string]any{"key_id": keyID, "revoked_at": m.GetRevokedAt().AsTime()})
	}
	_, err = fmt.Fprintln(out, "revoked", keyID)
	return err
}

func produceKey(ctx context.Context, conn *bus.Conn, m *weirv1.ApiKey) error {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	id := m.GetKeyId()
	return send(ctx, conn, topics.CatalogApikeys, []bus.Record{bus.NewRecord(topics.CatalogApikeys, id, []byte(id), value)})
}
