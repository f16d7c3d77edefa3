package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/pkg/instance"
)

// upFlags are what `weir up` takes beside the global flags.
type upFlags struct {
	replicas    []string
	apacheKafka bool
	external    map[string]*string
}

func (a *app) upCmd() *cobra.Command {
	f := upFlags{external: map[string]*string{}}
	c := &cobra.Command{
		Use: "up", Short: "Install what is missing, start parts and services, return when all is ready",
		Long: `Up starts what does not run yet, and restarts services that run another build than those beside this program: one service after the
other, all copies of it at once. Everything of the instance is kept under --dir; downloads are kept once per user. Parts of your own are given by address and are never changed: see ` + "`weir init --print`.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.up(c, f) },
	}
	c.Flags().StringArrayVar(&f.replicas, "replicas", nil, "copies of a service, e.g. admission=3 (repeatable)")
	c.Flags().BoolVar(&f.apacheKafka, "apache-kafka", false, "run Apache Kafka (KRaft, Java 17) instead of the embedded broker")
	for name, example := range map[string]string{
		"kafka": "kafka://host:9092, kafka+tls://user@host:9093?sasl=scram-sha-512&password_file=F", "redis": "redis://host:6379/0",
		"postgres": "postgres://user:password@host/db", "clickhouse": "http://user:password@host:8123/weir",
	} {
		f.external[name] = c.Flags().String(name, "", "address of your own "+name+", e.g. "+example)
	}
	return c
}

func (a *app) up(c *cobra.Command, f upFlags) error {
	replicas, err := parseReplicas(f.replicas)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("where am I: %w", err)
	}
	if !a.dirGiven && os.Getenv("WEIR_DIR") == "" {
		a.dir = usualDir // a demo that runs beside it is looked at by default, never started anew
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return misuse("--dir: %w", err)
	}
	a.sayOtherDir(c.ErrOrStderr())
	external := map[string]string{}
	for name, address := range f.external {
		external[name] = *address
	}
	progress := newProgress(c.ErrOrStderr())
	progress.say("starting the instance in %s", dir)
	s, err := instance.Up(c.Context(), instance.Config{
		Dir: instance.Dir(dir), Bin: filepath.Dir(self), Self: self, Replicas: replicas, ApacheKafka: f.apacheKafka,
		External: external, Say: progress.say, Reporter: progress,
	})
	if err != nil {
		if errors.Is(err, instance.ErrMisuse) {
			return misuse("%w", err)
		}
		return err
	}
	if a.json {
		return a.status(c.Context(), c.OutOrStdout())
	}
	admission, _ := s.Service("admission")
	_, err = fmt.Fprintf(c.OutOrStdout(), "up: admission at %s, everything under %s\n", admission.Address, a.dir)
	return err
}

// parseReplicas reads admission=3 and its like.
func parseReplicas(list []string) (map[string]int, error) {
	out := map[string]int{}
	for _, item := range list {
		name, count, ok := strings.Cut(item, "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 {
			return nil, misuse("--replicas %q: give SERVICE=N", item)
		}
		if !slices.Contains(instance.Programs(), name) {
			return nil, misuse("--replicas %q: the services are %s", item, strings.Join(instance.Programs(), ", "))
		}
		if n > instance.MaxReplicas {
			return nil, misuse("--replicas %q: at most %d", item, instance.MaxReplicas)
		}
		out[name] = n
	}
	return out, nil
}

func (a *app) downCmd() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Stop everything of the instance; the data stay", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			say := func(string, ...any) {}
			if !a.json {
				say = newProgress(c.ErrOrStderr()).say
			}
			a.sayOtherDir(c.ErrOrStderr())
			err := instance.Dir(a.dir).Down(say)
			if errors.Is(err, instance.ErrNone) {
				return no("%w", err)
			}
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(c.OutOrStdout(), map[string]any{"state": "down"})
			}
			return nil
		},
	}
}
