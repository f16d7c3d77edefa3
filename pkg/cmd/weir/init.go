package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/instance"
)

// initFlags say what `weir init` acts on.
type initFlags struct {
	print       bool
	replication int
	kafka, postgres, clickhouse,
	redis string
}

func (a *app) initCmd() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use: "init", Short: "Create topics, tables and the epoch in parts of your own; --print shows what is needed",
		Long: `Init creates what is missing in the parts whose addresses are given, and nothing else. With --print it
writes what an administrator would run instead: topics and ACLs for Kafka, SQL with the least rights per service.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.replication < 1 || f.replication > 15 {
				return misuse("--replication: 1 to 15")
			}
			if f.print {
				return printInit(c.OutOrStdout(), f.replication)
			}
			a.sayOtherDir(c.ErrOrStderr())
			return a.runInit(c.Context(), c.OutOrStdout(), f)
		},
	}
	c.Flags().BoolVar(&f.print, "print", false, "print it instead of doing it")
	c.Flags().IntVar(&f.replication, "replication", 1, "replication factor of the topics")
	c.Flags().StringVar(&f.kafka, "kafka", "", "address of your Kafka")
	c.Flags().StringVar(&f.postgres, "postgres", "", "address of your Postgres")
	c.Flags().StringVar(&f.clickhouse, "clickhouse", "", "address of your ClickHouse")
	c.Flags().StringVar(&f.redis, "redis", "", "address of your Redis (needs --postgres: both get the same epoch)")
	return c
}

func (a *app) runInit(ctx context.Context, out io.Writer, f initFlags) error {
	if f.kafka == "" && f.postgres == "" && f.clickhouse == "" && f.redis == "" {
		return misuse("init needs an address (--kafka, --postgres, --clickhouse, --redis) or --print")
	}
	if f.redis != "" && f.postgres == "" {
		return misuse("--redis needs --postgres: both get the same epoch")
	}
	done := []string{}
	for _, step := range []struct {
		name, address string
		run           func() error
	}{
		{"kafka", f.kafka, func() error { return instance.InitKafka(ctx, f.kafka, f.replication) }},
		{"postgres", f.postgres, func() error { return instance.InitPostgres(ctx, f.postgres) }},
		{"clickhouse", f.clickhouse, func() error { return instance.InitClickHouse(ctx, f.clickhouse) }},
		{"redis", f.redis, func() error { return instance.InitEpoch(ctx, f.postgres, f.redis) }},
	} {
		if step.address == "" {
			continue
		}
		if err := step.run(); errors.Is(err, instance.ErrMisuse) {
			return misuse("--%s: %w", step.name, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		done = append(done, step.name)
		if !a.json {
			fmt.Fprintln(out, step.name, "ready")
		}
	}
	if a.json {
		return printJSON(out, map[string]any{"initialised": done})
	}
	return nil
}
