package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/instance"
)

// app is what the commands share: the global flags.
type app struct {
	dir  string
	json bool
	// dirGiven: --dir stands on the command line, so it goes before WEIR_KAFKA and its like.
	dirGiven bool
	// lead takes the right to change the catalog of tenants; leadTenants but in tests.
	lead func(context.Context) (lead, error)
}

func newApp() *app {
	a := &app{}
	a.lead = a.leadTenants
	return a
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Admission gate and books for multi-tenant LLM-agent operations",
		Long: `Weir decides before each LLM call whether the tenant may spend, and records afterwards what was
spent: once, exactly, attributed to tenant, cost centre, agent and execution tree.

Start with:  weir up      then:  weir tenants apply FILE,  weir prices import FILE,  weir keys create --tenant T`,
		SilenceUsage: true, SilenceErrors: true,
		Args: cobra.ArbitraryArgs,
		RunE: helpOrUnknown,
		PersistentPreRun: func(c *cobra.Command, _ []string) {
			a.dirGiven = c.Flags().Changed("dir")
		},
	}
	root.PersistentFlags().StringVar(&a.dir, "dir", defaultDir(), "folder of the instance")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misuse("%w (see `%s --help`)", err, c.CommandPath()) })
	root.AddCommand(
		a.upCmd(), a.downCmd(), a.statusCmd(), a.envCmd(), a.initCmd(),
		a.tenantsCmd(), a.keysCmd(), a.pricesCmd(), a.priceCmd(),
		a.billCmd(), a.findCmd(), a.treeCmd(), a.auditCmd(), a.dlqCmd(),
		a.killCmd(),
		a.partCmd(),
	)
	wrapArgs(root)
	return root
}

// group is a command that only holds others.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: helpOrUnknown}
	c.AddCommand(sub...)
	return c
}

// helpOrUnknown runs where a command's name was expected: without one it helps, with a wrong one it is used wrongly.
func helpOrUnknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	c.SuggestionsMinimumDistance = 2
	hint := ""
	if s := c.SuggestionsFor(args[0]); len(s) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(s, " or "))
	}
	return misuse("%s has no command %q%s (see `%s --help`)", c.CommandPath(), args[0], hint, c.CommandPath())
}

// wrapArgs makes wrong arguments of any command a usage error (exit 2).
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return misuse("%w; usage: %s", err, c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// sayOtherDir warns who stands in a folder with an instance of its own that WEIR_DIR, as eval "$(weir env)" exports it, names
// another.
func (a *app) sayOtherDir(out io.Writer) {
	named := os.Getenv("WEIR_DIR")
	here, err := os.Stat(usualDir)
	if named == "" || a.dirGiven || err != nil {
		return
	}
	if there, err := os.Stat(named); err == nil && os.SameFile(here, there) {
		return
	}
	newProgress(out).say("WEIR_DIR names %s, so the instance in %s here is left alone; `unset WEIR_DIR`, or give --dir", named, usualDir)
}

// usualDir is where an instance lives unless somebody says otherwise.
const usualDir = ".weir"

// defaultDir is WEIR_DIR, else .weir; what `make run` plays lives in .weir/demo and is found while it runs, where there
// is nothing else.
func defaultDir() string {
	if v := os.Getenv("WEIR_DIR"); v != "" {
		return v
	}
	const demo = ".weir/demo"
	if _, err := instance.Dir(usualDir).Load(); err == nil {
		return usualDir
	}
	s, err := instance.Dir(demo).Load()
	if err != nil {
		return usualDir
	}
	for _, v := range s.Services {
		if v.Alive() {
			return demo
		}
	}
	return usualDir
}
