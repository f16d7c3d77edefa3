package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/audit/stores"
	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
)

func (a *app) auditCmd() *cobra.Command {
	wait := 30 * time.Second
	c := &cobra.Command{
		Use: "audit", Short: "Recompute the books from the Kafka log and compare everything with them",
		Long: `Audit waits until all is quiet, saying for what on standard error, reads the whole log, and compares ledger, windows,
executions and budgets with it, to the last decimal. Exit 1 if anything differs at rest; an empty log is not ok. Exit 3 if the books still moved, by calls
or by a recovery of Redis, so that nothing can be said: try again. still_moving (--json) and the first line say what. While a recovery runs,
Redis is not compared.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.audit(c.Context(), c.OutOrStdout(), newProgress(c.ErrOrStderr()).say, wait)
		},
	}
	c.Flags().DurationVar(&wait, "wait", wait, "how long to wait for the services to catch up")
	return c
}

func (a *app) audit(ctx context.Context, out io.Writer, say func(format string, args ...any), wait time.Duration) error {
	sources, books, closeAll, err := a.auditSources(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	left, err := settle(ctx, wait, books.now, say)
	if err != nil {
		return err
	}
	was, err := books.mark(ctx)
	if err != nil {
		return err
	}
	unread, err := books.redis(ctx)
	if err != nil {
		return err
	}
	sources.Now = time.Now()
	if len(unread) == 0 {
		sources.Budgets = stores.Budgets{Store: sources.store, Epoch: was.epoch, Now: time.Now}
	}
	report, err := audit.Run(ctx, sources.Sources)
	if err != nil {
		return err
	}
	if len(left) == 0 && !report.OK { // what differs may have moved
		if left, err = books.since(ctx, was); err != nil {
			return err
		}
	}
	if len(left) == 0 { // it began after the wait
		left = unread
	}
	report.Unsettled(left)
	if a.json {
		err = printJSON(out, report)
	} else {
		err = printReport(out, report, len(unread) > 0)
	}
	switch {
	case err == nil && !report.Settled:
		return silentAway()
	case err == nil && !report.OK:
		return silentNo()
	}
	return err
}

// auditOf is what an audit reads, but for the epoch that it reads Redis in.
type auditOf struct {
	audit.Sources
	store *budgetstore.Store
}

// auditSources opens everything that an audit reads.
func (a *app) auditSources(ctx context.Context) (auditOf, moving, func(), error) {
	var closers []func()
	closeAll := func() {
		for _, c := range closers {
			c()
		}
	}
	fail := func(err error) (auditOf, moving, func(), error) {
		closeAll()
		return auditOf{}, moving{}, nil, err
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
		return fail(awayFrom("postgres", err))
	}
	closers = append(closers, pg.Close)
	backlog, err := outbox.Open(ctx, pgAddress)
	if err != nil {
		return fail(awayFrom("postgres", err))
	}
	closers = append(closers, func() { _ = backlog.Close(context.WithoutCancel(ctx)) })
	redisAddress, err := a.address("redis", "WEIR_REDIS")
	if err != nil {
		return fail(err)
	}
	store, err := budgetstore.Open(ctx, redisAddress, budgetstore.Options{})
	if err != nil {
		return fail(awayFrom("redis", err))
	}
	closers = append(closers, func() { _ = store.Close() })
	return auditOf{audit.Sources{Log: conn, Books: stores.Books{Client: db}}, store}, moving{conn, pg, backlog}, closeAll, nil
}

// printReport is for people; partly: without Redis.
func printReport(out io.Writer, r audit.Report, partly bool) error {
	if !r.Settled {
		fmt.Fprintf(out, "not settled yet, so what differs below may be no difference: %s\n", strings.Join(r.Moving, "; "))
	}
	fmt.Fprintf(out, "read: %d usage events (%d of them duplicates), %d journal entries, %d epoch markers, %d dead letters, %d ledger rows, %d windows, %d tenants, %d sub-scopes, %d executions\n",
		r.Events, r.Duplicates, r.Entries, r.Markers, r.DeadLetters, r.LedgerRows, r.Windows, r.Tenants, r.Scopes, r.Executions)
	fmt.Fprintf(out, "journal: raw $%s, billed $%s\n", r.RawCostUSD, r.BilledUSD)
	if o := r.Older; o.Rows > 0 {
		fmt.Fprintf(out, "%d ledger rows recorded from %s to %s were written by an earlier build, without the columns branches or api_key_id, which the journal has\n",
			o.Rows, o.From.UTC().Format(time.RFC3339), o.To.UTC().Format(time.RFC3339))
	}
	for _, d := range r.Differences {
		fmt.Fprintln(out, d)
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(out, "and %d more\n", r.Unlisted)
	}
	verdict, differences := "ok", int64(len(r.Differences))+r.Unlisted
	switch {
	case partly:
		verdict = fmt.Sprintf("Redis was not compared, try again when it can be read (%d differences elsewhere so far)", differences)
	case !r.Settled:
		verdict = fmt.Sprintf("not settled yet, try again (%d differences so far)", differences)
	case !r.OK:
		verdict = fmt.Sprintf("%d differences", differences)
	}
	_, err := fmt.Fprintln(out, "audit:", verdict)
	return err
}
