package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/bus"
	"github.com/weir-project/weir/pkg/catalog"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/gen/topics"
)

func (a *app) killCmd() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "Print what is stopped, and what was let go again", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.killList(c.Context(), c.OutOrStdout()) },
	}
	return group("kill", "The kill switch: stop all calls, or those of a tenant, a provider or a model",
		a.killSwitchCmd("on", "Stop calls now: new ones are refused, running ones are told to stop", true),
		a.killSwitchCmd("off", "Let go what was stopped", false), list)
}

func (a *app) killSwitchCmd(verb, short string, on bool) *cobra.Command {
	var all bool
	var tenant, provider, model, reason string
	c := &cobra.Command{
		Use: verb + " --all | --tenant T | --provider P | --model M", Short: short, Args: cobra.NoArgs,
		Long: short + ".\n\nIt returns once every running service has applied it. The reason is told to the callers that are stopped.",
		RunE: func(c *cobra.Command, _ []string) error {
			if on { // as it is in reservations; one to be lifted may be older
				provider = usage.ProviderName(provider)
			}
			scope, err := killScope(all, tenant, provider, model)
			if err != nil {
				return err
			}
			if len(reason) > admit.MaxKillReason {
				return misuse("--reason has at most %d bytes", admit.MaxKillReason)
			}
			return a.killSwitch(c.Context(), c.OutOrStdout(), admit.Kill{Scope: scope, On: on, Reason: reason}, time.Now())
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every call of every tenant")
	c.Flags().StringVar(&tenant, "tenant", "", "the calls of one tenant")
	c.Flags().StringVar(&provider, "provider", "", "the calls to one provider, e.g. openai")
	c.Flags().StringVar(&model, "model", "", "the calls of one model, its dated releases too, e.g. gpt-4o")
	c.Flags().StringVar(&reason, "reason", "", "why, for people")
	return c
}

// killScope reads exactly one scope: a kill must never mean more, or less, than was typed.
func killScope(all bool, tenant, provider, model string) (admit.KillScope, error) {
	var scopes []admit.KillScope
	if all {
		scopes = append(scopes, admit.KillAll)
	}
	for _, named := range []struct {
		name string
		of   func(string) admit.KillScope
	}{{tenant, admit.KillTenant}, {provider, admit.KillProvider}, {model, admit.KillModel}} {
		if named.name != "" {
			scopes = append(scopes, named.of(named.name))
		}
	}
	if len(scopes) != 1 {
		return "", misuse("give one of --all, --tenant, --provider and --model")
	}
	if err := scopes[0].Validate(); err != nil {
		return "", misuse("%w", err)
	}
	return scopes[0], nil
}

// killView is one switch as people read it.
type killView struct {
	Scope     string    `json:"scope"`
	On        bool      `json:"on"`
	Reason    string    `json:"reason,omitempty"`
	ChangedAt time.Time `json:"changed_at"`
}

func viewOf(k admit.Kill) killView { return killView{string(k.Scope), k.On, k.Reason, k.At()} }

func (a *app) killSwitch(ctx context.Context, out io.Writer, k admit.Kill, now time.Time) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	known, err := readKills(ctx, conn)
	if err != nil {
		return err
	}
	old, switched := known.Get(k.Scope)
	switch {
	case !k.On && !(switched && old.On):
		return no("%s is not stopped; `weir kill list` shows what is", k.Scope)
	case k.On && !switched && len(known.List()) >= admit.MaxKills:
		return no("%d scopes are switched already, the most there may be: stop a wider one", admit.MaxKills)
	}
	// Above the version it replaces, also where this clock is behind the one that wrote that.
	k.Version = max(now.UnixMicro(), old.Version+1)
	value, err := catalog.EncodeKill(k)
	if err != nil {
		return misuse("%w", err)
	}
	if k.On {
		warnUnknown(ctx, conn, k.Scope, now)
	}
	key := string(k.Scope)
	if err := a.publish(ctx, conn, topics.ControlKillswitch, []bus.Record{bus.NewRecord(topics.ControlKillswitch, key, []byte(key), value)}); err != nil {
		return err
	}
	if a.json {
		return printJSON(out, viewOf(k))
	}
	word := "stopped"
	if !k.On {
		word = "let go"
	}
	_, err = fmt.Fprintln(out, k.Scope, word)
	return err
}

// warnUnknown tells of a likely typing error. It refuses nothing: in an emergency the operator is right.
func warnUnknown(ctx context.Context, conn *bus.Conn, scope admit.KillScope, now time.Time) {
	kind, name, _ := strings.Cut(string(scope), ":")
	found := false
	switch kind {
	case "tenant":
		known, err := readTenants(ctx, conn)
		if err != nil {
			return
		}
		_, found = known.At(name, now)
	case "provider", "model":
		book, err := readPrices(ctx, conn)
		if err != nil {
			return
		}
		for _, h := range book.Histories() {
			found = found || kind == "provider" && h.Provider == name || kind == "model" && h.Model == name
		}
	default:
		return
	}
	if !found {
		fmt.Fprintf(os.Stderr, "weir: no %s %q in the catalog; stopped all the same, if that is its name in reservations\n", kind, name)
	}
}

func (a *app) killList(ctx context.Context, out io.Writer) error {
	conn, err := a.kafka(ctx)
	if err != nil {
		return err
	}
	known, err := readKills(ctx, conn)
	if err != nil {
		return err
	}
	views := []killView{}
	for _, k := range known.List() {
		views = append(views, viewOf(k))
	}
	if a.json {
		return printJSON(out, map[string]any{"kills": views})
	}
	w := newTable(out)
	fmt.Fprintln(w, "SCOPE\tSTATE\tSINCE\tREASON")
	for _, v := range views {
		state := "off"
		if v.On {
			state = "STOPPED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Scope, state, v.ChangedAt.Format(time.RFC3339), v.Reason)
	}
	return w.Flush()
}
