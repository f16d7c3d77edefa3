package main

import (
	"context"
	"fmt"
	"os"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/gen/topics"
)

// readAll applies everything that is in a topic now.
func readAll(ctx context.Context, conn *bus.Conn, topic bus.Topic, apply func(bus.Record) error) error {
	for p := range int32(topic.Partitions()) {
		if err := conn.ReadPartition(ctx, topic, p, -1, -1, apply); err != nil {
			return err
		}
	}
	return nil
}

func readTenants(ctx context.Context, conn *bus.Conn) (*catalog.Tenants, error) {
	tenants := catalog.NewTenants(warnBad)
	return tenants, readAll(ctx, conn, topics.CatalogTenants, tenants.Apply)
}

func readPrices(ctx context.Context, conn *bus.Conn) (*pricing.Book, error) {
	prices := catalog.NewPrices(warnBad)
	err := readAll(ctx, conn, topics.CatalogPrices, prices.Apply)
	return prices.Book(), err
}

func readKeys(ctx context.Context, conn *bus.Conn) (*catalog.APIKeys, error) {
	keys := catalog.NewAPIKeys(warnBad)
	return keys, readAll(ctx, conn, topics.CatalogApikeys, keys.Apply)
}

func readKills(ctx context.Context, conn *bus.Conn) (admit.Kills, error) {
	kills := catalog.NewKills(warnBad)
	err := readAll(ctx, conn, topics.ControlKillswitch, kills.Apply)
	return kills.Set(), err
}

// warnBad reports a catalog record that this version cannot read; the last good one stays in force.
func warnBad(topic, key string, err error) {
	fmt.Fprintln(os.Stderr, "weir: unreadable", topic, key, err)
}
