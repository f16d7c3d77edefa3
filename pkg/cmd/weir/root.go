package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/instance"
)

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
	root.PersistentFlags().StringVar(&a.dir, "dir", defaultDir(), "folder of the instance")
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

// defaultDir is WEIR_DIR, else .weir; what `make run` plays lives in .weir/demo and is found where nothing else runs.
func defaultDir() string {
	if v := os.Getenv("WEIR_DIR"); v != "" {
		return v
	}
	const usual, demo = ".weir", ".weir/demo"
	if _, err := instance.Dir(usual).Load(); err == nil {
		return usual
	}
	if _, err := instance.Dir(demo).Load(); err == nil {
		return demo
	}
	return usual
}
