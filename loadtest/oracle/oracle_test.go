package oracle_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/weir-project/weir/loadtest/oracle"
)

func demoBill(t *testing.T) oracle.Bill {
	t.Helper()
	bill, err := oracle.Expected()
	if err != nil {
		t.Fatal(err)
	}
	return bill
}

// The figures are the (28,185 calls at $144.40022) and hand-made for the rest.
func TestDemoBill(t *testing.T) {
	bill := demoBill(t)
	trace := bill.Total("acme", "globex", "initech")
	if trace.Calls != 28_185 || oracle.Dollars(trace.Raw) != "144.40022" {
		t.Errorf("trace calls: %s", trace)
	}
	for tenant, want := range map[string]string{
		"trial": "33 calls, 33000+16500 tokens, $0.2475 raw, $0.2475 billed",
		"labs":  "420 calls, 1800000+390000 tokens, $8.4 raw, $9.24 billed",
	} {
		if got := bill.Total(tenant).String(); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	acme := bill.Total("acme")
	if ratio := new(big.Rat).Quo(acme.Billed, acme.Raw); ratio.Cmp(big.NewRat(6, 5)) != 0 {
		t.Errorf("acme's markup is %s", ratio)
	}
	if shares := bill.Total("globex").Calls; shares < 9_000 || shares > 9_700 {
		t.Errorf("globex has %d calls, want a third", shares)
	}
}

func TestDifferences(t *testing.T) {
	bill := demoBill(t)
	if d := bill.Differences(demoBill(t)); len(d) != 0 {
		t.Fatalf("equal bills differ: %v", d)
	}
	altered := demoBill(t)
	altered[0].Raw.Add(altered[0].Raw, big.NewRat(1, 1_000_000_000_000_000_000))
	altered[1].Calls++
	altered = append(altered[:2], altered[3:]...)
	altered = append(altered, oracle.Line{Key: oracle.Key{Tenant: "nobody"}, Raw: new(big.Rat), Billed: new(big.Rat)})
	d := strings.Join(bill.Differences(altered), "\n")
	if strings.Count(d, "is wrong") != 2 || strings.Count(d, "is missing") != 1 || strings.Count(d, "is not expected") != 1 {
		t.Fatalf("differences:\n%s", d)
	}
}

func TestUnknownPriceIsNoZero(t *testing.T) {
	rates, err := oracle.ReadRates([]byte(`{"m": {"litellm_provider": "openai", "input_cost_per_token": 1e-6}}`), "openai")
	if err != nil {
		t.Fatal(err)
	}
	tally, err := oracle.NewTally(rates, map[string]string{"a": "0"})
	if err != nil {
		t.Fatal(err)
	}
	if tally.Add(oracle.Key{Tenant: "a"}, "m", 1, 1, 1) == nil || tally.Add(oracle.Key{Tenant: "b"}, "m", 1, 1, 1) == nil {
		t.Fatal("a call without a price or a markup was counted")
	}
}
