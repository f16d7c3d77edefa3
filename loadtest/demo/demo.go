package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/oracle"
	"github.com/weir-project/weir/loadtest/rig"
)

// Config is what `make run` was asked for.
type Config struct {
	// Bin holds weir and the services; Dir is the instance's folder, which is wiped.
	Bin, Dir string
	// Apache runs Apache Kafka instead of the embedded broker.
	Apache bool
	// Once ends after the audit; else the instance stays up until the context ends.
	Once bool
	// Speed is how much faster than the trace's hour to play.
	Speed int64
	Out   io.Writer
	// Width is the terminal's, in characters; 0 where Out is none.
	Width int
}

// Bounds of the steps after the play.
const (
	booksWithin = 5 * time.Minute
	stopWithin  = 2 * time.Minute
)

// run is one demo under way.
type run struct {
	Config
	rig      *rig.Rig
	scenario Scenario
	calls    []Call
	want     oracle.Bill
	keys     map[string]string
	clients  map[string]*caller.Client
}

// Run plays the demo. It returns nil when the bill is the oracle's and the audit is clean. Whatever happens, what it
// started is stopped at its end.
func Run(ctx context.Context, c Config) (err error) {
	r := &run{Config: c, rig: &rig.Rig{Bin: c.Bin, Dir: c.Dir, Say: c.Out}, keys: map[string]string{}, clients: map[string]*caller.Client{}}
	if r.want, err = oracle.Expected(); err != nil {
		return err
	}
	s, rows, err := load()
	if err != nil {
		return err
	}
	r.scenario, r.calls = s, s.Trace.leads(rows)
	begin := time.Now()
	r.say("weir-demo: starting everything afresh in %s", c.Dir)
	if err := r.rig.Wipe(ctx); err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, r.rig.Down(stop))
	}()
	if err := r.setUp(ctx); err != nil {
		return err
	}
	ready := time.Now()
	if err := r.play(ctx); err != nil {
		return err
	}
	played := time.Now()
	result := r.settleUp(ctx)
	r.say("\nset up %s, play %s, books %s", since(begin, ready), since(ready, played), since(played, time.Now()))
	result = errors.Join(result, r.audit(ctx))
	if c.Once || ctx.Err() != nil {
		return result
	}
	r.invite()
	<-ctx.Done()
	r.say("\nstopping")
	return result
}

func since(from, to time.Time) time.Duration { return to.Sub(from).Round(100 * time.Millisecond) }

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// setUp starts parts and services and gives them tenants, prices and keys.
func (r *run) setUp(ctx context.Context) error {
	var flags []string
	if r.Apache {
		flags = append(flags, "--apache-kafka")
	}
	if err := r.rig.Up(ctx, flags...); err != nil {
		return err
	}
	for name, command := range map[string][]string{
		loadtest.Tenants: {"tenants", "apply"}, loadtest.Prices: {"prices", "import", "--yes"},
	} {
		raw, err := loadtest.Input(name)
		if err != nil {
			return err
		}
		file := filepath.Join(r.Dir, filepath.Base(name))
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if _, err := r.rig.Weir(ctx, append(command, file)...); err != nil {
			return err
		}
	}
	http := caller.HTTP(64)
	for _, tenant := range r.tenants() {
		key, err := r.rig.Key(ctx, tenant)
		if err != nil {
			return err
		}
		r.keys[tenant], r.clients[tenant] = key, caller.New(r.rig.Env("WEIR_URL"), key, http)
	}
	return nil
}

// tenants are those of the trace, the trial, and the one that never asks.
func (r *run) tenants() []string {
	return unique(append(slices.Clone(r.scenario.Trace.Turns), r.scenario.Trial.Tenant, r.scenario.Direct.Tenant))
}

// unique is each of the names once, in the order in which they come first.
func unique(names []string) []string {
	var all []string
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// play plays everything at once and shows it.
func (r *run) play(ctx context.Context) error {
	f := newFigures(len(r.calls))
	sender, err := r.rig.Sender()
	if err != nil {
		return err
	}
	show, done := context.WithCancel(ctx)
	drawn := make(chan struct{})
	view := &screen{out: r.Out, width: r.Width, figures: f, tenants: r.tenants(), clients: r.clients, begin: time.Now()}
	go func() { defer close(drawn); view.run(show) }()

	group, inner := errgroup.WithContext(ctx)
	s, labs := r.scenario, r.clients[r.scenario.Runaway.Tenant]
	group.Go(func() error {
		return player{scenario: s, clients: r.clients, seen: f.refusal, settled: f.settle, speed: r.Speed}.play(inner, r.calls)
	})
	group.Go(func() error {
		return playTrial(inner, s, r.clients[s.Trial.Tenant], func(n int, refused *caller.Refusal) {
			f.with(func() { f.settled[s.Trial.Tenant] = n })
			if refused != nil {
				f.refusal(s.Trial.Tenant, refused)
			}
		})
	})
	group.Go(func() error {
		return playDirect(inner, s, sender, func(n int) { f.with(func() { f.events = n }) })
	})
	group.Go(func() error {
		return playRunaway(inner, s, r.rig, labs, sender, func(now runaway) { f.with(func() { f.loop = now }) })
	})
	err = group.Wait()
	done()
	<-drawn
	sender.Close(context.WithoutCancel(ctx))
	return err
}

// settleUp waits until the ledger has everything, prints the bill and checks it against the oracle.
func (r *run) settleUp(ctx context.Context) error {
	got, err := r.rig.AwaitBill(ctx, r.want, booksWithin)
	if err != nil {
		return err
	}
	r.say("")
	if err := printBill(r.Out, got); err != nil {
		return err
	}
	return check(r.Out, r.scenario, r.want, got)
}

// audit runs `weir audit`, whose last line is its verdict.
func (r *run) audit(ctx context.Context) error {
	begin := time.Now()
	out, err := r.rig.Weir(ctx, "audit", "--wait", booksWithin.String())
	var no *rig.CommandError
	if errors.As(err, &no) {
		r.say("%s%s", no.Stdout, no.Stderr)
		return fmt.Errorf("audit: exit %d", no.Code)
	}
	if err != nil {
		return err
	}
	r.say("audit took %s", since(begin, time.Now()))
	_, err = io.WriteString(r.Out, out)
	return err
}

// invite says what can be tried.
func (r *run) invite() {
	weir := filepath.Join(r.Bin, "weir")
	tenant := r.tenants()[0]
	r.say(`
It stays up until Ctrl-C. In another shell:

  eval "$(%[1]s env --dir %[2]s)"
  export WEIR_KEY=%[3]s    # tenant %[4]s
  curl -sS "$WEIR_URL/v1/budget" -H "Authorization: Bearer $WEIR_KEY"
  %[1]s bill --tenant %[4]s --by agent
  %[1]s tree fan-out
  %[1]s dlq list
  curl -sS "$WEIR_CLICKHOUSE_URL/?database=weir" -u "finance:$WEIR_FINANCE_PASSWORD" --data-binary "SELECT * FROM bill FORMAT PrettyCompact"`,
		weir, r.Dir, r.keys[tenant], tenant)
}
