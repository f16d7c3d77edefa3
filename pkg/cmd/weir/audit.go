package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/audit/stores"
	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/pgstore"
)

func (a *app) auditCmd() *cobra.Command {
	wait := 30 * time.Second
	c := &cobra.Command{
		Use: "audit", Short: "Recompute the books from the Kafka log and compare everything with them",
		Long: `Audit waits until all is quiet, reads the whole log, and compares ledger, windows, executions and budgets with it,
to the last decimal. Exit 1 if anything differs; an empty log is not ok.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.audit(c.Context(), c.OutOrStdout(), wait) },
	}
	c.Flags().DurationVar(&wait, "wait", wait, "how long to wait for the services to catch up")
	return c
}

func (a *app) audit(ctx context.Context, out io.Writer, wait time.Duration) error {
	sources, closeAll, err := a.auditSources(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	behind, err := waitQuiet(ctx, sources.Log, wholeWay(), wait)
	if err != nil {
		return err
	}
	report, err := audit.Run(ctx, sources)
	if err != nil {
		return away("%w", err)
	}
	if behind > 0 {
		report.Differences = append(report.Differences, audit.Difference{
			Where: "log", What: "consumers", Expected: "all caught up", Found: fmt.Sprintf("%d records behind after %s", behind, wait),
		})
		report.OK = false
	}
	if a.json {
		err = printJSON(out, report)
	} else {
		err = printReport(out, report)
	}
	if err == nil && !report.OK {
		return silentNo()
	}
	return err
}

// auditSources opens everything that an audit reads.
func (a *app) auditSources(ctx context.Context) (audit.Sources, func(), error) {
	var closers []func()
	closeAll := func() {
		for _, c := range closers {
			c()
		}
	}
	fail := func(err error) (audit.Sources, func(), error) {
		closeAll()
		return audit.Sources{}, nil, err
	}
	conn, err := a.kafka(ctx)
	if err != nil {
		return fail(err)
	}
	db, err := a.clickhouse(ctx)
	if err != nil {
		return fail(err)
	}
	closers = append(closers, func() { _ = db.Close() })
	pgAddress, err := a.address("postgres", "WEIR_POSTGRES")
	if err != nil {
		return fail(err)
	}
	pg, err := pgstore.Open(ctx, pgAddress)
	if err != nil {
		return fail(away("%w", err))
	}
	closers = append(closers, pg.Close)
	epoch, _, err := pg.Epoch(ctx)
	if err != nil {
		return fail(away("%w", err))
	}
	redisAddress, err := a.address("redis", "WEIR_REDIS")
	if err != nil {
		return fail(err)
	}
	store, err := budgetstore.Open(ctx, redisAddress, budgetstore.Options{})
	if err != nil {
		return fail(away("%w", err))
	}
	closers = append(closers, func() { _ = store.Close() })
	return audit.Sources{
		Log: conn, Books: stores.Books{Client: db}, Budgets: stores.Budgets{Store: store, Epoch: epoch, Now: time.Now}, Now: time.Now(),
	}, closeAll, nil
}

func printReport(out io.Writer, r audit.Report) error {
	fmt.Fprintf(out, "read: %d usage events (%d of them duplicates), %d journal entries, %d epoch markers, %d dead letters, %d ledger rows, %d windows, %d tenants, %d sub-scopes, %d executions\n",
		r.Events, r.Duplicates, r.Entries, r.Markers, r.DeadLetters, r.LedgerRows, r.Windows, r.Tenants, r.Scopes, r.Executions)
	fmt.Fprintf(out, "journal: raw $%s, billed $%s\n", r.RawCostUSD, r.BilledUSD)
	for _, d := range r.Differences {
		fmt.Fprintln(out, d)
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(out, "and %d more\n", r.Unlisted)
	}
	if !r.OK {
		_, err := fmt.Fprintf(out, "audit: %d differences\n", int64(len(r.Differences))+r.Unlisted)
		return err
	}
	_, err := fmt.Fprintln(out, "audit: ok")
	return err
}
