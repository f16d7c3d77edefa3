// Command weir runs, fills and questions a Weir: it starts the parts and services, applies tenants, keys and prices,
// and reads bills, ledgers and dead letters.
//
// Exit codes: 0 done, 1 the answer is no, 2 used wrongly, 3 a dependency is away (design.md, section 12).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run is main without the process around it.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(os.Stderr, "weir:", err)
	}
	return exitCode(err)
}

// app is what the commands share: the global flags and the streams.
type app struct {
	dir  string
	json bool
}

func newRoot() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:   "weir",
		Short: "Admission gate and books for multi-tenant LLM-agent operations",
		Long: `Weir decides before each LLM call whether the tenant may spend, and records afterwards what was
spent: once, exactly, attributed to tenant, cost centre, agent and execution tree.

Start with:  weir up      then:  weir tenants apply FILE,  weir prices import FILE,  weir keys create --tenant T`,
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVar(&a.dir, "dir", envOr("WEIR_DIR", ".weir"), "folder of the instance")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse("%w (see --help)", err) })
	root.AddCommand(
		a.upCmd(), a.downCmd(), a.statusCmd(), a.envCmd(), a.initCmd(),
		a.tenantsCmd(), a.keysCmd(), a.pricesCmd(), a.priceCmd(),
		a.billCmd(), a.findCmd(), a.treeCmd(), a.auditCmd(), a.dlqCmd(),
		a.partCmd(),
	)
	wrapArgs(root)
	return root
}

// wrapArgs makes wrong arguments of any command a usage error (exit 2).
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return misuse("%w (see `%s --help`)", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
