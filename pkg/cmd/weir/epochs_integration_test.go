//go:build integration

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/audit"
	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/gen/topics"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/outbox"
	"github.com/weir-project/weir/pkg/pgstore"
	"github.com/weir-project/weir/pkg/usageevent"
)

// epochWorld is an instance without admission: the test ends reservations and raises epochs in its stead.
type epochWorld struct {
	*stage
	store  *pgstore.Store
	secret identity.Secret
	epoch  atomic.Int64
	again  map[string]*exec.Cmd
}

// Settles while Redis is lost over and over, and relay, attributor and aggregator are killed without a word: every amount
// of the settle script stands in its own epoch in each partition, each marker is there, and the base of the last epoch is
// what the journal says. The auditor finds all of that out on its own.
func TestEpochsUnderKills(t *testing.T) {
	const losses, ends = 3, 120
	w := newEpochWorld(t)
	var work sync.WaitGroup
	for _, tenant := range []string{"acme", "beta"} {
		for worker := range 2 {
			work.Go(func() {
				for n := range ends / 4 {
					w.end(tenant, fmt.Sprint("e", worker, "-", n))
				}
			})
		}
	}
	// Each consumer once: its group waits a minute for a member that died while it was joining.
	kills := []string{"outbox-relay", "cost-attributor", "budget-aggregator", "outbox-relay", "outbox-relay", "outbox-relay"}
	for i := range losses {
		lost := w.epoch.Load()
		w.mark(func() error {
			_, err := w.store.RaiseEpoch(t.Context(), lost, lost+1, budgetstore.Layout, pgstore.EpochMarkers(w.secret, lost+1, usageevent.EpochRaised, topics.UsageEvents.Partitions()))
			return err
		})
		w.kill(kills[2*i])
		w.mark(func() error {
			_, err := w.store.AddBarrier(t.Context(), lost+1, pgstore.EpochMarkers(w.secret, lost+1, usageevent.EpochBarrier, topics.UsageEvents.Partitions()))
			return err
		})
		w.kill(kills[2*i+1])
		w.mark(func() error { return w.finish(lost + 1) })
		w.epoch.Store(lost + 1)
	}
	work.Wait()
	r := w.audited()
	if r.Entries != ends || r.LedgerRows != ends || r.Markers != int64(2*losses*topics.UsageEvents.Partitions()) || r.DeadLetters != 0 {
		t.Errorf("%d entries, %d rows, %d markers, %d dead letters", r.Entries, r.LedgerRows, r.Markers, r.DeadLetters)
	}
}

func newEpochWorld(t *testing.T) *epochWorld {
	t.Helper()
	root := here(t)
	p := newInstance(t)
	for _, service := range []string{"COST_ATTRIBUTOR", "BUDGET_AGGREGATOR"} { // after a kill, partitions wait as long for the one that died
		t.Setenv(service+"_SESSION", "6s")
	}
	p.must("up")
	w := &epochWorld{stage: newStage(t, p), again: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for _, cmd := range w.again {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	w.fill(root)
	p.signal("admission", syscall.SIGKILL)
	part, _ := w.state.Part("postgres")
	var err error
	if w.store, err = pgstore.Open(t.Context(), part.Address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	key, err := os.ReadFile(filepath.Join(p.dir, "secrets", "hmac.key"))
	if err != nil {
		t.Fatal(err)
	}
	if w.secret, err = identity.NewSecret(bytes.TrimSpace(key)); err != nil {
		t.Fatal(err)
	}
	epoch, _, err := w.store.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.epoch.Store(epoch)
	return w
}

// mark repeats a step of a recovery until it succeeds, as admission does.
func (w *epochWorld) mark(step func() error) {
	w.t.Helper()
	w.wait("a step of the recovery", func() bool {
		err := step()
		if err != nil {
			w.t.Log(err)
		}
		return err == nil
	})
}

// end settles $0.0026 of a hold of the epoch of now, or of the one just lost.
func (w *epochWorld) end(tenant, id string) {
	at, epoch := time.Now().UTC().Truncate(time.Microsecond), w.epoch.Load()
	ev := usageevent.Event{ID: fmt.Sprintf("settle:%s:%d", id, at.UnixNano()), Source: usageevent.SourceAdmission, Type: usageevent.TypeUsage, Subject: tenant, Time: at,
		Data: usageevent.Data{Provider: "openai", Model: "gpt-4o", API: "chat.completions", Usage: []byte(`{"prompt_tokens":1000,"completion_tokens":10}`),
			Status: "SUCCESS", AgentID: "a", RootExecutionID: "x1", ReservationID: id,
			Reservation: &usageevent.Reservation{ReservedAt: at, Outcome: usageevent.OutcomeSettled, OwnNanos: 2_600_000, HeldNanos: 3_000_000, Epoch: epoch}}}
	mode := pgstore.OwnDirect
	ended := comes(func() bool { // whoever raises the epoch may break it off: what was not committed is said again
		ev.Data.Reservation.OwnMode = string(mode)
		value := usageevent.Encode(ev)
		row := pgstore.Row{Tenant: tenant, ReservationID: id, ReservedAt: at, Outcome: pgstore.Settled, OwnMode: mode, OwnNanos: 2_600_000, HeldNanos: 3_000_000, Epoch: epoch, EventID: ev.ID}
		_, _, err := w.store.End(w.t.Context(), row, &outbox.Event{ID: ev.ID, AggregateType: "tenant", AggregateID: tenant, Type: ev.Type, Payload: value,
			Headers: map[string]string{"content-type": usageevent.ContentType, identity.SignatureHeader: identity.Sign(w.secret, value)}})
		if errors.Is(err, pgstore.ErrEpochRaised) {
			mode = pgstore.OwnJournal
		} else if err != nil {
			w.t.Log(err)
		}
		return err == nil
	})
	if !ended {
		w.t.Errorf("%s of %s does not end", id, tenant)
	}
	<-time.After(20 * time.Millisecond) // so that the ends last as long as the losses
}

// kill ends a service as a power cut would, and starts it again as it was.
func (w *epochWorld) kill(name string) {
	w.t.Helper()
	old, cmd := w.again[name], new(exec.Cmd)
	if old != nil {
		cmd = exec.Command(old.Path, old.Args[1:]...)
		cmd.Env = old.Env
		if err := old.Process.Kill(); err != nil {
			w.t.Fatal(err)
		}
		_ = old.Wait() // it was killed
	} else {
		pid := w.pids()[name]
		read := func(file string) []string {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				w.t.Fatal(err)
			}
			var out []string
			for _, word := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
				out = append(out, string(word))
			}
			return out
		}
		args := read("cmdline")
		cmd = exec.Command(args[0], args[1:]...)
		cmd.Env = read("environ")
		w.signal(name, syscall.SIGKILL)
		w.wait(name+" is gone", func() bool { return !alive(pid) })
	}
	log, err := os.OpenFile(filepath.Join(w.dir, "log", name+"-again.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.again[name] = cmd
}

// audited audits until nothing differs but what admission would do; it is gone, so the books never settle.
func (w *epochWorld) audited() audit.Report {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 8*time.Minute)
	defer cancel()
	for {
		r := decodeJSON[audit.Report](w.t, w.run("audit", "--json", "--wait", "1s"))
		left := slices.DeleteFunc(r.Differences, func(d audit.Difference) bool { return d.Where == "redis" })
		if len(left) == 0 && r.Unlisted == 0 && r.Entries > 0 {
			return r
		}
		if ctx.Err() != nil {
			w.logs()
			w.t.Fatalf("%d differences: %v", len(left), left[:min(10, len(left))])
		}
	}
}

// logs shows the end of what the services said that were started again.
func (w *epochWorld) logs() {
	for name := range w.again {
		b, err := os.ReadFile(filepath.Join(w.dir, "log", name+"-again.log"))
		w.t.Logf("%s %v:\n%s", name, err, b[max(0, len(b)-4000):])
	}
}

// finish opens an epoch as the leader of its recovery does.
func (w *epochWorld) finish(epoch int64) error {
	lead, err := w.store.TryLead(w.t.Context())
	if err != nil {
		return err
	}
	if lead == nil {
		return errors.New("somebody leads")
	}
	return errors.Join(lead.Finish(w.t.Context(), epoch, nil), lead.Close(w.t.Context()))
}
