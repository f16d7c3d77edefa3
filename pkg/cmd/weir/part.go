package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/embedded"
	"github.com/weir-project/weir/pkg/embedded/install"
)

// partCmd is what `weir up` runs as child processes, and what prepares a machine for the tests.
func (a *app) partCmd() *cobra.Command {
	return &cobra.Command{
		Use: "part kafka|clickhouse|install …", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "install" {
				return installParts(c.Context(), newProgress(c.ErrOrStderr()), len(args) > 1 && args[1] == "--apache-kafka")
			}
			if code := embedded.PartCommand(args); code != 0 {
				return codedError{code, errSilent}
			}
			return nil
		},
	}
}

// installParts brings everything that embedded parts lack on this machine.
func installParts(ctx context.Context, p *progress, apache bool) error {
	bring, err := install.New("", p)
	if err != nil {
		return err
	}
	if _, err := bring.Redis(ctx); err != nil {
		return err
	}
	if _, err := bring.Postgres(ctx, 0); err != nil {
		return err
	}
	if _, err := bring.ClickHouse(ctx); err != nil {
		return err
	}
	if !apache {
		return nil
	}
	if _, err := bring.Java(ctx); err != nil {
		return err
	}
	if _, err := bring.Kafka(ctx); err != nil {
		return err
	}
	return nil
}
