//go:build integration

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/caller"
	"github.com/weir-project/weir/loadtest/oracle"
)

const gateTenants = `
tenants:
  - {id: minute-1, limits: {concurrency: 20}, ceilings: {minute_usd: 1.00, day_usd: 50, month_usd: 50}}
  - {id: minute-3, limits: {concurrency: 20}, ceilings: {minute_usd: 1.00, day_usd: 50, month_usd: 50}}
  - {id: solo, limits: {concurrency: 1}, ceilings: {minute_usd: 10, day_usd: 50, month_usd: 50}}
  - {id: mixed, limits: {concurrency: 5}, ceilings: {minute_usd: 10, day_usd: 50, month_usd: 0.006}, timezone: MIDDAY}
  - {id: paused, limits: {concurrency: 20}, ceilings: {minute_usd: 10, day_usd: 50, month_usd: 50}}
`

// The gate holds, on one instance: ceilings under concurrency, holds that nobody ends, usage that never asked, a Redis
// that does not answer, and last one that has forgotten.
func TestGate(t *testing.T) {
	w := start(t)
	w.tenants(gateTenants, "minute-1", "minute-3", "solo", "mixed", "paused")
	t.Run("ten at once, one admission", func(t *testing.T) { w.on(t).tenAtOnce("minute-1") })
	t.Run("abandoned hold", func(t *testing.T) { w.on(t).abandoned("solo") })
	t.Run("usage that never asked", func(t *testing.T) { w.on(t).neverAsked("mixed") })
	w.up("--replicas", "admission=3")
	t.Run("ten at once, three admissions", func(t *testing.T) {
		if n := len(*w.gates.list.Load()); n != 3 {
			t.Fatalf("%d admissions", n)
		}
		w.on(t).tenAtOnce("minute-3")
	})
	w.mustAudit()
	t.Run("redis paused", func(t *testing.T) { w.on(t).redisPaused("paused") })
	t.Run("redis emptied", func(t *testing.T) { w.on(t).redisEmptied("paused") })
}

// thirtyCents is a reservation of exactly $0.30: 119,600 × $2.5e-6 + 100 × $1e-5.
func thirtyCents(id string) caller.Reservation { return reservation(id, 119_600, 100) }

func reservation(id string, input, output int64) caller.Reservation {
	return caller.Reservation{ID: id, Provider: "openai", Model: "gpt-4o", AgentID: "gate", CostCenter: "tests", Estimate: caller.Estimate(input, output)}
}

// tenAtOnce: $1.00 a minute and 10 simultaneous reservations of $0.30, of which exactly three fit.
func (w *world) tenAtOnce(tenant string) {
	begin, results := make(chan struct{}), make(chan error)
	for i := range 10 {
		client := w.client(tenant)
		go func() {
			<-begin
			_, err := reserve(w.t.Context(), client, thirtyCents(fmt.Sprintf("ten-%d", i)))
			results <- err
		}()
	}
	close(begin)
	admitted := 0
	for range 10 {
		err := <-results
		if err == nil {
			admitted++
			continue
		}
		var r *caller.Refusal
		if !errors.As(err, &r) || r.Code != "tenant_quota_exceeded" || r.Window != "minute" || r.RetryAfter != 0 {
			w.t.Errorf("refused with %+v %v", r, err)
		}
	}
	if admitted != 3 {
		w.t.Fatalf("%d admitted, want exactly 3", admitted)
	}
	b, err := budget(w.t.Context(), w.client(tenant))
	if err != nil || b.Windows["minute"].RemainingUSD != "0.1" {
		w.t.Fatalf("budget %+v, %v", b, err)
	}
	for i := range 10 { // give them back, so that nothing expires into the books; those that were refused are not there
		if err := release(w.t.Context(), w.client(tenant), fmt.Sprintf("ten-%d", i)); err != nil {
			mustRefuse(w.t, err, "reservation_not_found")
		}
	}
}

// abandoned: a hold fills the concurrency. One whose owner dies frees it, stands on the bill as UNSETTLED, and takes a late settle.
func (w *world) abandoned(tenant string) {
	ctx, client := w.t.Context(), w.client(tenant)
	next := reservation("next", 1000, 500)
	if _, err := reserve(ctx, client, reservation("held", 1000, 500)); err != nil {
		w.t.Fatal(err)
	}
	_, err := reserve(ctx, client, next)
	if r := mustRefuse(w.t, err, "rate_limited"); r.Limit != "concurrency" || r.RetryAfter <= 0 {
		w.t.Fatalf("refused with %+v", r)
	}
	if err := release(ctx, client, "held"); err != nil {
		w.t.Fatal(err)
	}
	dead := reservation("dead", 1000, 500)
	dead.LeaseSeconds = 1
	if _, err := reserve(ctx, client, dead); err != nil {
		w.t.Fatal(err)
	}
	if err := caller.Insist(ctx, nil, func() error { _, err := client.Reserve(ctx, next); return err }); err != nil {
		w.t.Fatalf("concurrency did not come back: %v", err)
	}
	if _, err := settle(ctx, client, "next", caller.Chat(1000, 20)); err != nil {
		w.t.Fatal(err)
	}
	w.mustLines(tenant, [2]int64{1000, 500}, [2]int64{1000, 20})
	if kinds := w.kinds(tenant); kinds != "UNSETTLED,USAGE" {
		w.t.Fatalf("kinds %s", kinds)
	}
	late, err := settle(ctx, client, "dead", caller.Chat(1000, 30))
	if err != nil || !late.Late {
		w.t.Fatalf("late settle %+v, %v", late, err)
	}
	w.mustLines(tenant, [2]int64{1000, 30}, [2]int64{1000, 20})
	if kinds := w.kinds(tenant); kinds != "REVERSAL,UNSETTLED,USAGE,USAGE" {
		w.t.Fatalf("kinds %s", kinds)
	}
}

// mustLines waits until the tenant's bill is that of calls with these input and output tokens.
func (w *world) mustLines(tenant string, calls ...[2]int64) {
	w.t.Helper()
	rates, err := oracle.ReadRates([]byte(input(w.t, loadtest.Prices)), "openai")
	if err != nil {
		w.t.Fatal(err)
	}
	tally, err := oracle.NewTally(rates, map[string]string{tenant: "0"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range calls {
		if err := tally.Add(oracle.Key{Tenant: tenant, CostCenter: "tests", Agent: "gate"}, "gpt-4o", 1, c[0], c[1]); err != nil {
			w.t.Fatal(err)
		}
	}
	want := tally.Bill()
	var got oracle.Bill
	await(w.t, "bill of "+want[0].String(), func() bool {
		all, err := w.Bill(w.t.Context())
		got = nil
		for _, l := range all {
			if l.Tenant == tenant {
				got = append(got, l)
			}
		}
		return err == nil && len(want.Differences(got)) == 0
	})
}

// kinds are the kinds of a tenant's ledger rows.
func (w *world) kinds(tenant string) string {
	w.t.Helper()
	rows, err := w.Select(w.t.Context(), "SELECT arrayStringConcat(arraySort(groupArray(toString(entry_kind))), ',') AS kinds FROM agent_cost_ledger WHERE tenant_id = '"+tenant+"'")
	if err != nil || len(rows) != 1 {
		w.t.Fatalf("kinds: %v, %v", rows, err)
	}
	return rows[0]["kinds"]
}

// redisPaused: while Redis does not answer nobody is admitted, and every answer comes all the same.
func (w *world) redisPaused(tenant string) {
	redis, err := w.status().Find("redis")
	if err != nil {
		w.t.Fatal(err)
	}
	mustAdmit := func(id string) {
		w.t.Helper()
		if _, err := reserve(w.t.Context(), w.client(tenant), reservation(id, 100, 100)); err != nil {
			w.t.Fatal(err)
		}
		if _, err := settle(w.t.Context(), w.client(tenant), id, caller.Chat(100, 10)); err != nil {
			w.t.Fatal(err)
		}
	}
	mustAdmit("before")
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	resume := sync.OnceFunc(func() {
		if err := redis.Signal(syscall.SIGCONT); err != nil {
			w.t.Error(err)
		}
	})
	defer resume()
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			_, err := w.client(tenant).Reserve(w.t.Context(), reservation(fmt.Sprintf("paused-%d", i), 100, 100))
			var r *caller.Refusal
			if !errors.As(err, &r) || r.Status != 503 || !strings.HasPrefix(r.Code, "budget_store_") || r.RetryAfter <= 0 {
				w.t.Errorf("paused: got %v", err)
			}
		})
	}
	wait.Wait()
	resume()
	mustAdmit("after")
}

// redisEmptied: an empty Redis is a lost one, never a fresh budget.
func (w *world) redisEmptied(tenant string) {
	w.flush()
	for i := range 20 {
		_, err := reserve(w.t.Context(), w.client(tenant), reservation(fmt.Sprintf("emptied-%d", i), 100, 100))
		if r := mustRefuse(w.t, err, "budget_store_recovering"); r.Status != 503 {
			w.t.Fatalf("refused with %+v", r)
		}
	}
}
