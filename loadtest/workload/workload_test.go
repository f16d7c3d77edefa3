package workload_test

import (
	"errors"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/oracle"
	"github.com/weir-project/weir/loadtest/workload"
	"github.com/weir-project/weir/pkg/usageevent"
)

func config(t *testing.T, seed uint64) workload.Config {
	t.Helper()
	raw, err := loadtest.Input(loadtest.Prices)
	if err != nil {
		t.Fatal(err)
	}
	rates, err := oracle.ReadRates(raw, "openai")
	if err != nil {
		t.Fatal(err)
	}
	return workload.Config{Seed: seed, Tenants: 3, Leads: 40, FanOut: 50, Events: 100, Poison: 6, Rates: rates}
}

func make3(t *testing.T, seed uint64) workload.Workload {
	t.Helper()
	w, err := workload.Make(config(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSameSeedSameWorkload(t *testing.T) {
	if !reflect.DeepEqual(make3(t, 7), make3(t, 7)) {
		t.Fatal("one seed gave two workloads")
	}
	if reflect.DeepEqual(make3(t, 7).Calls, make3(t, 8).Calls) {
		t.Fatal("two seeds gave the same calls")
	}
}

// The truth is computed a second time here, call by call with integers: micro-dollars times ten to the sixth.
func TestTruthAddsUp(t *testing.T) {
	w := make3(t, 7)
	rates := map[string][2]int64{"gpt-4o": {2_500_000, 10_000_000}, "gpt-4o-mini": {150_000, 600_000}, "gpt-4.1": {2_000_000, 8_000_000}} // 1e-12 $ a token
	var pico, calls int64
	ids := map[string]bool{}
	for _, c := range w.Calls {
		if c.Output > c.MaxOutput || ids[c.ID] {
			t.Fatalf("call %+v", c)
		}
		ids[c.ID] = true
		in, out := c.Input, c.Output
		switch c.Ending {
		case workload.Released:
			continue
		case workload.Failed:
			in, out = 0, 0
		case workload.Cut, workload.Abandoned:
			out = c.MaxOutput
		}
		calls++
		pico += in*rates[c.Model][0] + out*rates[c.Model][1]
	}
	for _, e := range w.Events {
		calls++
		pico += e.Input*rates[e.Model][0] + e.Output*rates[e.Model][1]
	}
	total := w.Bill.Total()
	if total.Calls != calls || total.Raw.Cmp(big.NewRat(pico, 1_000_000_000_000)) != 0 {
		t.Fatalf("%s, counted again: %d calls, %d e-12", total, calls, pico)
	}
	if len(w.Poison) != 6 || w.Unsettled == 0 {
		t.Fatalf("%d poisoned, %d unsettled", len(w.Poison), w.Unsettled)
	}
}

func TestEventsAreWhatTheContractSays(t *testing.T) {
	w := make3(t, 7)
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	var late int
	for _, e := range w.Events {
		ev, err := usageevent.Decode([]byte(e.Value(now)), func(string) ([]byte, bool) { return nil, false })
		if err != nil || ev.ID != e.ID || ev.Subject != e.Tenant || ev.Data.CostCenter != e.CostCenter {
			t.Fatalf("%s: %+v, %v", e.Value(now), ev, err)
		}
		if !ev.Time.Equal(now) {
			late++
		}
	}
	if late == 0 {
		t.Fatal("no late event")
	}
	for _, p := range w.Poison {
		_, err := usageevent.Decode([]byte(p.Value), func(string) ([]byte, bool) { return nil, false })
		var refused *usageevent.Error
		if !errors.As(err, &refused) || string(refused.Reason) != p.Reason {
			t.Fatalf("%s: %v, want %s", p.Value, err, p.Reason)
		}
	}
}
