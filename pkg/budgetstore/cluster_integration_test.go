//go:build integration

package budgetstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/testkit"
)

// Goal: field report 41: every script finds all keys of a tenant in one slot, whichever of the nodes has it. Method: a
// Cluster of three, and tenants on each of them taken through everything that the store can do.
func TestFieldReport41Cluster(t *testing.T) {
	address, nodes := testkit.RedisCluster(t, 3)
	clock := &logical{}
	clock.us.Store(start().UnixMicro())
	store, err := Open(t.Context(), address+"&read_timeout=1m", Options{ScriptClock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if epoch, err := store.InitEpoch(t.Context(), testEpoch); err != nil || epoch != testEpoch {
		t.Fatalf("epoch %d: %v", epoch, err)
	}
	var tenants []Tenant
	var all sync.WaitGroup
	for i := range 24 {
		w := &world{t: t, store: store, clock: clock, tenant: Tenant{ID: fmt.Sprint("tenant-", i), Epoch: testEpoch},
			limits: admit.Limits{Concurrency: 3, OpenExecutions: 5, Minute: admit.Hard(10 * dollar), Day: admit.Hard(100 * dollar), Month: admit.NoCeiling(), Ladder: ladder.Default()}}
		tenants = append(tenants, w.tenant)
		all.Go(func() { w.throughALife(i) })
	}
	all.Wait()
	if due, err := store.WithDue(t.Context(), tenants, clock.now().Add(time.Hour)); err != nil || len(due) != len(tenants) {
		t.Errorf("due at %d of %d tenants, over all nodes in one go: %v", len(due), len(tenants), err)
	}
	for _, n := range nodes {
		keys, err := testkit.AskRedis(t.Context(), n.Address, "DBSIZE")
		if err != nil || keys == "0" {
			t.Errorf("node %s has %s keys: the tenants are not spread over all nodes (%v)", n.Address, keys, err)
		}
	}
	clearsAll(t, store, len(tenants), len(nodes))
	refusesOne(t, store, nodes[1].Address)
}

// refusesOne has one of several masters refuse, which Inspect sees.
func refusesOne(t *testing.T, store *Store, node string) {
	for _, c := range [][2]string{{"1000000", "OOM"}, {"0", ""}} {
		if got, err := testkit.AskRedis(t.Context(), node, "CONFIG SET maxmemory "+c[0]); err != nil || got != "OK" {
			t.Fatal(got, err)
		}
		now, err := store.Inspect(t.Context())
		if r, _ := AsRefusal(now.Refuses); err != nil || r.Kind != c[1] {
			t.Errorf("one of the masters has %s bytes: %v, %v", c[0], now.Refuses, err)
		}
	}
}

// clearsAll clears what the tenants left on all nodes, and then looks at each node once more. The client calls back for all
// nodes at once: the race detector tells whether that is heeded.
func clearsAll(t *testing.T, store *Store, tenants, nodes int) {
	later, visits := Maker{Epoch: testEpoch + 1, Generation: 1}, 0
	alive := func(context.Context) error { visits++; return nil }
	if removed, err := store.ClearOthers(t.Context(), later, alive); err != nil || removed < tenants {
		t.Errorf("%d keys of %d tenants are removed: %v", removed, tenants, err)
	}
	visits = 0
	if removed, err := store.ClearOthers(t.Context(), later, alive); err != nil || removed != 0 || visits != nodes {
		t.Errorf("%d keys were left on %d nodes of %d: %v", removed, visits, nodes, err)
	}
}

// throughALife makes every call of the store for one tenant; it ends with one open hold.
func (w *world) throughALife(n int) {
	ctx := w.t.Context()
	fail := func(what string, err error, ok bool) bool {
		if err != nil || !ok {
			w.t.Errorf("%s: %s: %v", w.tenant.ID, what, err)
		}
		return err != nil || !ok
	}
	made, err := w.store.CreateTenant(ctx, w.tenant)
	if fail("create", err, made) {
		return
	}
	fail("ready", w.store.MarkReady(ctx, w.tenant), true)
	_, err = w.store.StartExecution(ctx, w.tenant, "root", admit.ExecutionLimits{MaxCost: 9 * dollar, MaxDepth: 3})
	fail("execution", err, true)
	var refs []Ref
	for i := range 3 {
		r := w.request(dollar)
		r.Execution = admit.Execution{Root: fmt.Sprint("root", []string{"", "2", "3"}[i]), Depth: 1}
		reply, err := w.store.Reserve(ctx, r)
		if fail("reserve", err, reply.Verdict == Admitted) {
			return
		}
		refs = append(refs, Ref{Tenant: w.tenant, ID: r.ID, ReservedAt: reply.Answer.ReservedAt})
	}
	reply, err := w.store.Reserve(ctx, w.request(dollar))
	fail("a fourth", err, reply.Verdict == Refused && reply.Refusal.Limit == admit.LimitConcurrency)
	extended, err := w.store.Extend(ctx, ExtendRequest{Ref: refs[0], Lease: time.Minute, AtLeast: admit.Estimate{Nanos: 2 * dollar}, Limits: w.limits, Calendar: w.calendar()})
	fail("extend", err, extended.Found && !extended.Stop)
	ending, err := w.store.Settle(ctx, refs[0], admit.Estimate{Nanos: dollar / 2})
	fail("settle", err, ending.Applied)
	ending, err = w.store.Release(ctx, refs[1])
	fail("release", err, ending.Applied)
	applied, err := w.store.ApplyJournal(ctx, w.tenant, []JournalEntry{{Offset: 1, Kind: Journal, ReservationID: "forgotten", ReservedAt: w.clock.now(),
		Day: 20260630, Root: "root9", Actual: admit.Estimate{Nanos: dollar}}})
	fail("journal", err, applied == 1)
	taken, err := w.store.ApplyExternal(ctx, w.tenant, []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 1, Nanos: dollar},
		{Scope: ExecutionScope, Root: "root", Version: 1, Nanos: dollar}})
	fail("external", err, taken == 2)
	fail("revoke", w.store.Revoke(ctx, w.tenant, "root3"), true)
	b, err := w.store.Budget(ctx, w.tenant, w.calendar(), admit.Limits{})
	fail(fmt.Sprintf("budget %+v", b), err, b.Day.Used() == 7*dollar/2 && b.Day.Held == dollar && b.Concurrency == 1)
	h, err := w.store.Hold(ctx, w.tenant, refs[2].ID)
	fail("hold", err, h.Held.Nanos == dollar)
	if n == 0 {
		fail("kill", w.store.MirrorKills(ctx, []admit.Kill{{Scope: admit.KillAll, On: true, Version: 1, Reason: "test"}}), true)
		kills, err := w.store.Kills(ctx)
		fail("kills", err, len(kills) == 1)
	}
}
