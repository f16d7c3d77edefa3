package demo

import (
	"math/big"
	"testing"
	"time"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/oracle"
	"github.com/weir-project/weir/pkg/tenantsfile"
)

func theLeads(t *testing.T) (Scenario, []Call) {
	t.Helper()
	s, rows, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Trace.leads(rows)
}

// expectedBill is the oracle's.
func expectedBill(t *testing.T) oracle.Bill {
	t.Helper()
	bill, err := oracle.Expected()
	if err != nil {
		t.Fatal(err)
	}
	return bill
}

// The split that is played and the oracle's are separate code over one rule: they must agree on every line.
func TestSplitIsTheOracles(t *testing.T) {
	s, calls := theLeads(t)
	raw, err := loadtest.Input(loadtest.Prices)
	if err != nil {
		t.Fatal(err)
	}
	rates, err := oracle.ReadRates(raw, s.Provider)
	if err != nil {
		t.Fatal(err)
	}
	tally, err := oracle.NewTally(rates, s.Markups)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if err := tally.Add(oracle.Key{Tenant: c.Lead.Tenant, CostCenter: c.Lead.CostCenter, Agent: c.Agent}, s.Model, 1, c.Input, c.Output); err != nil {
			t.Fatal(err)
		}
	}
	var want oracle.Bill
	for _, l := range expectedBill(t) {
		if l.Tenant != s.Trial.Tenant && l.Tenant != s.Direct.Tenant {
			want = append(want, l)
		}
	}
	for _, d := range want.Differences(tally.Bill()) {
		t.Error(d)
	}
}

func TestLeads(t *testing.T) {
	s, calls := theLeads(t)
	perLead := map[*Lead]int{}
	roots := map[string]bool{}
	for _, c := range calls {
		if perLead[c.Lead] == 0 {
			if c.Agent != s.Trace.Agents[0] || roots[c.Lead.Tenant+c.Lead.Root] {
				t.Fatalf("lead %s of %s begins with %s", c.Lead.Root, c.Lead.Tenant, c.Agent)
			}
			roots[c.Lead.Tenant+c.Lead.Root] = true
		}
		perLead[c.Lead]++
		if c.Output > maxOutput {
			t.Fatalf("%s answers %d tokens, more than it may", c.ID, c.Output)
		}
	}
	var fans int
	for lead, n := range perLead {
		if n != lead.Calls {
			t.Fatalf("lead %s has %d calls and says %d", lead.Root, n, lead.Calls)
		}
		if n == 51 {
			fans++
		}
	}
	if fans != 1 {
		t.Fatalf("%d fan-outs of 50 calls", fans)
	}
}

// scenario.json repeats what tenants.yaml says, for the oracle; ceilings must exceed the shares of all but the trial.
func TestTenantsFileAgrees(t *testing.T) {
	s, _ := theLeads(t)
	raw, err := loadtest.Input(loadtest.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	file, err := tenantsfile.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Contracts) != len(s.Markups) {
		t.Fatalf("tenants %v, markups %v", file.IDs(), s.Markups)
	}
	rat := func(text string) *big.Rat {
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is no number", text)
		}
		return r
	}
	bill := expectedBill(t)
	for id, c := range file.Contracts {
		if rat(c.Markup.String()).Cmp(rat(s.Markups[id])) != 0 {
			t.Errorf("%s: markup %s in tenants.yaml, %s in scenario.json", id, c.Markup, s.Markups[id])
		}
		share := bill.Total(id).Raw
		for _, ceiling := range []string{c.Ceilings.Minute.USD().String(), c.Ceilings.Day.USD().String(), c.Ceilings.Month.USD().String()} {
			if id != s.Trial.Tenant && rat(ceiling).Cmp(share) <= 0 {
				t.Errorf("%s: a ceiling of $%s refuses a share of $%s", id, ceiling, oracle.Dollars(share))
			}
		}
	}
	if month := file.Contracts[s.Trial.Tenant].Ceilings.Month.USD().String(); rat(month).Cmp(rat(s.Trial.MonthUSD)) != 0 {
		t.Errorf("trial's month: $%s in tenants.yaml, $%s in scenario.json", month, s.Trial.MonthUSD)
	}
}

func TestEventsHaveTheirOwnIDs(t *testing.T) {
	s, _ := theLeads(t)
	seen := map[string]bool{}
	for i := range s.Direct.Events {
		seen[directEvent(s, s.Direct, "import", i, "", time.Unix(0, 0)).ID] = true
	}
	for i := range s.Runaway.Events {
		seen[directEvent(s, s.Runaway, "loop", i, "token", time.Unix(0, 0)).ID] = true
	}
	if len(seen) != s.Direct.Events+s.Runaway.Events {
		t.Fatalf("%d ids", len(seen))
	}
}
