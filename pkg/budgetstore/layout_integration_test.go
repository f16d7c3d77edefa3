//go:build integration

package budgetstore

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/testkit"
)

var update = flag.Bool("update", false, "rewrite testdata/layout.txt, where Layout was raised")

// layoutFile has, under the number of a layout, what a fixed sequence of calls leaves in Redis.
const layoutFile = "testdata/layout.txt"

// Goal: nobody changes what bytes in Redis mean and forgets to raise Layout, without which a Redis of the build before is
// misread. Method: each key and field that a fixed sequence of calls leaves, by length and hash, as it was when Layout was
// last raised. The sequence leaves every kind of key and field that doc.go and lua/state.lua name.
func TestLayout(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.client.FlushAll(t.Context()).Err())
	w.limits = admit.Limits{Concurrency: 9, Requests: 50, InputTokens: 1e6, OutputTokens: 1e6, OpenExecutions: 7, Minute: admit.Hard(90 * dollar),
		Day: admit.Hard(900 * dollar), Month: admit.Hard(9000 * dollar), Ladder: w.limits.Ladder}
	w.live()
	w.recovered()
	dump := w.dump()
	for _, kind := range []string{`{t}:s {`, `{t}:s {c`, `{t}:s {b`, `{t}:s {k`, `{t}:s {r0`, `{t}:s {r1`, `{t}:s {r2`, `{t}:s {r3`, `{t}:s {n`, `{t}:s {o`, `{t}:s {xroot`, `{t}:s r4`, `{t}:s {hr4`, `{t}:d`,
		`{t}:e r3`, `{t}:o root`, `{t}:x:root`, `{t}:x:{branch`, `{t}:v:x branch`, `{t}:c:a:named {`, `{t}:c:a:named {n`, `{t}:c:k:star {r`, `{t}:v:k star`, `{u}:s {c`, `{u}:c:a:named {c`, `{u}:s p1`, `{u}:n {e`,
		`{u}:n p1`, `epoch`, `seal`, `kill all`, `used:webhook`} {
		if !strings.Contains(dump, "w:"+kind) {
			t.Errorf("the sequence leaves no %s any more:\n%s", kind, dump)
		}
	}
	got := fmt.Sprintf("layout %d\n%s", Layout, dump)
	want, err := os.ReadFile(layoutFile)
	w.must(err)
	if head, _, _ := strings.Cut(got, "\n"); got != string(want) && strings.HasPrefix(string(want), head+"\n") {
		t.Fatalf("what is in Redis is laid out otherwise than %s was: raise Layout (layout.go), then run this with -update. Where only figures changed "+
			"that every build reads alike, take the number out of %s first.\n%s", head, layoutFile, got)
	}
	testkit.Golden(t, *update, layoutFile, got)
}

// live is what a tenant's calls do: reservations with and without execution, branch and sub-scopes, ends, growth, leases that
// ran out, external usage, and the turn of day and month.
func (w *world) live() {
	t, ctx := w.t, w.t.Context()
	w.tenant.ID = "t"
	_, err := w.store.InitEpoch(ctx, testEpoch)
	w.must(err)
	_, err = w.store.CreateTenant(ctx, w.tenant)
	w.must(err)
	w.must(w.store.MarkReady(ctx, w.tenant))
	_, err = w.store.StartExecution(ctx, w.tenant, "root", admit.ExecutionLimits{MaxCost: 50 * dollar, MaxDepth: 3, MaxCalls: 99})
	w.must(err)
	branch := admit.Branch{ID: "branch", MaxCost: 20 * dollar}
	w.must(w.store.StartBranch(ctx, w.tenant, "root", branch, time.Hour))
	hard := admit.Hard(80 * dollar)
	whole := func() Request {
		r := w.request(2 * dollar)
		r.Estimate.InputTokens, r.Estimate.OutputTokens, r.Lease = 100, 200, time.Hour
		r.Execution = admit.Execution{Root: "root", Depth: 1, Branches: []admit.Branch{branch}}
		r.Scopes = []ScopeLimit{{Kind: window.Agent, ID: "named", Minute: hard, Day: hard, Month: hard}, {Kind: window.APIKey, ID: "star", Star: true, Minute: hard, Day: hard, Month: hard}}
		return r
	}
	first := w.admit(whole()) // r1
	w.clock.advance(40 * time.Second)
	second := w.admit(w.request(3 * dollar)) // r2
	r3 := w.request(dollar)
	r3.Lease = time.Second
	w.admit(r3)
	w.clock.advance(2 * time.Second)
	_, err = w.store.Settle(ctx, second, admit.Estimate{Nanos: dollar, InputTokens: 7, OutputTokens: 8})
	w.must(err)
	_, err = w.store.Due(ctx, w.tenant, 10) // r3 is expiring
	w.must(err)
	grown, err := w.store.Extend(ctx, ExtendRequest{Ref: first, Lease: time.Hour, AtLeast: admit.Estimate{Nanos: 4 * dollar, OutputTokens: 300}, Limits: w.limits,
		Scopes: whole().Scopes, Branches: []admit.Branch{branch}, Calendar: w.calendar()})
	if err != nil || !grown.Found || grown.Stop {
		t.Fatalf("%+v, %v", grown, err)
	}
	w.clock.advance(time.Minute) // 1 July
	w.ids = 3
	w.admit(whole()) // r4
	_, err = w.store.ApplyJournal(ctx, w.tenant, []JournalEntry{{Offset: 41, Kind: Journal, ReservationID: "j", ReservedAt: w.clock.now().Add(-20 * time.Second), Day: 20260701,
		Root: "root", Actual: admit.Estimate{Nanos: dollar / 2, InputTokens: 3, OutputTokens: 4}}})
	w.must(err)
	_, err = w.store.ApplyExternal(ctx, w.tenant, []ExternalTotal{{Scope: MinuteScope, Window: w.clock.now().Unix() / 60 * 60, Version: 5, Nanos: 6},
		{Scope: DayScope, Window: 20260630, Version: 5, Nanos: 7}, {Scope: MonthScope, Window: 202606, Version: 5, Nanos: 8}, {Scope: ExecutionScope, Root: "root", Version: 5, Nanos: 9},
		{Scope: DayScope, Window: 20260701, Version: 5, Nanos: 7, SubScope: ScopeRef{Scope: window.Scope{Kind: window.Agent, ID: "named"}}}})
	w.must(err)
	w.must(w.store.MirrorKills(ctx, []admit.Kill{{Scope: "all", On: true, Reason: "why", Version: 3}}))
	_, err = w.store.HoldUse(ctx, "webhook", "owner", time.Hour)
	w.must(err)
	w.must(w.store.Seal(ctx, "token"))
}

// recovered makes another tenant's counters from books, with a hold that was shown.
func (w *world) recovered() {
	ctx, m := w.t.Context(), Maker{Epoch: testEpoch, Generation: 10}
	u := Tenant{ID: "u", Epoch: testEpoch}
	held := w.request(2 * dollar)
	held.Execution = admit.Execution{Root: "root"}
	_, err := w.store.Pend(ctx, PendRequest{Ref: Ref{Tenant: u, ID: "p1", ReservedAt: w.clock.now().Add(-time.Second)}, Day: 20260701, Month: 202607, Held: held.Estimate, Lease: time.Minute,
		Fingerprint: held.Fingerprint, Execution: held.Execution, Scopes: []window.Scope{{Kind: window.Agent, ID: "named"}}, Limits: held.Limits, Context: held.Context, Most: 10})
	w.must(err)
	minute := w.clock.now().Unix() / 60 * 60
	_, err = w.store.LoadBase(ctx, "u", m, Base{Offset: 77, Own: []OwnTotal{{MonthScope, 202606, 4 * dollar, 0, 0, 0}, {DayScope, 20260630, 3 * dollar, 0, 0, 0}, {MinuteScope, minute, 3, 2, 100, 200}},
		External:   []ExternalTotal{{Scope: DayScope, Window: 20260630, Version: 70, Nanos: dollar}},
		Executions: []ExecutionTotal{{Root: "root", Own: 4, External: 5, Calls: 3, Version: 70, LastUsed: w.clock.now()}},
		Scopes:     []ScopeBase{{Scope: window.Scope{Kind: window.Agent, ID: "named"}, Own: []OwnTotal{{DayScope, 20260701, 3, 0, 0, 0}}}}})
	w.must(err)
}

// byTIME is how many bytes at the end of field "{c" have Redis' own time, whatever the test clock says.
const byTIME = 8

// dump lists every key, or field of a hash, or member of a set, in order, with its length and hash.
func (w *world) dump() string {
	ctx, c := w.t.Context(), w.store.client
	keys, err := c.Keys(ctx, "*").Result()
	w.must(err)
	var lines []string
	line := func(name, value string) {
		fixed := value
		if strings.HasSuffix(name, " {c") {
			fixed = value[:len(value)-byTIME]
		}
		sum := sha256.Sum256([]byte(fixed))
		lines = append(lines, fmt.Sprintf("%s %d %x", name, len(value), sum[:8]))
	}
	for _, key := range keys {
		kind, err := c.Type(ctx, key).Result()
		w.must(err)
		switch kind {
		case "string":
			value, err := c.Get(ctx, key).Result()
			w.must(err)
			line(key, value)
		case "hash":
			all, err := c.HGetAll(ctx, key).Result()
			w.must(err)
			for field, value := range all {
				line(key+" "+field, value)
			}
		case "set":
			all, err := c.SMembers(ctx, key).Result()
			w.must(err)
			for _, member := range all {
				line(key+" "+member, "")
			}
		case "zset":
			all, err := c.ZRangeWithScores(ctx, key, 0, -1).Result()
			w.must(err)
			for _, z := range all {
				line(fmt.Sprint(key, " ", z.Member), scoreText(z))
			}
		default:
			w.t.Errorf("%s is a %s", key, kind)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func scoreText(z redis.Z) string { return fmt.Sprintf("%.0f", z.Score) }
