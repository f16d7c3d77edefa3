package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/instance"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "What runs, and whether it is ready", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.status(c.Context(), c.OutOrStdout()) },
	}
}

func (a *app) status(ctx context.Context, out io.Writer) error {
	st, err := instance.Dir(a.dir).Status(ctx)
	if err != nil {
		return err
	}
	if a.json {
		if err := printJSON(out, st); err != nil {
			return err
		}
	} else {
		var reasons []string
		fmt.Fprintf(out, "instance in %s\n", a.dir)
		w := newTable(out)
		fmt.Fprintln(w, "NAME\tKIND\tSTATE\tPID\tADDRESS")
		for _, p := range st.Parts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Kind, p.State, pidText(p.PID), p.Address)
		}
		for _, s := range st.Services {
			fmt.Fprintf(w, "%s\tservice\t%s\t%s\t%s\n", s.Name, s.State, pidText(s.PID), s.Address)
			if s.GRPC != "" {
				fmt.Fprintf(w, "\t\t\t\tgrpc %s\n", s.GRPC)
			}
			if s.Reason != "" {
				reasons = append(reasons, s.Reason)
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, r := range reasons {
			fmt.Fprintln(out, r)
		}
	}
	if !st.Healthy() {
		return silentNo()
	}
	return nil
}

// shellQuoted is a word of sh that means s, whatever s holds.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func pidText(pid *int) string {
	if pid == nil {
		return "-"
	}
	return fmt.Sprint(*pid)
}

func (a *app) envCmd() *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: "Print exports for a shell: eval \"$(weir env)\"", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			env, err := instance.Dir(a.dir).Env()
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(c.OutOrStdout(), env)
			}
			for _, name := range slices.Sorted(maps.Keys(env)) {
				fmt.Fprintf(c.OutOrStdout(), "export %s=%s\n", name, shellQuoted(env[name]))
			}
			return nil
		},
	}
}
