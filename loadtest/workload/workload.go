// Package workload makes traffic whose bill is known: tenants, trees of agents, calls that end in every way, and usage
// that never asked, with repeats, late and poisoned events.
//
// It owns what happens and what it must cost (in math/big.Rat, by package oracle). It does not own how it is played:
// that is package play's.
//
// Invariants: the same Config gives the same Workload, byte for byte; the truth is added up while a call is made up,
// from the price rows alone, and never from what a service answers.
package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/weir-project/weir/loadtest/oracle"
)

// Config says how much of what. The zero value of a count means none.
type Config struct {
	Seed    uint64
	Tenants int
	// Leads is the number of executions a tenant. The first tenant's first one fans out to FanOut calls.
	Leads, FanOut int
	// Events is the number of usage events a tenant that go straight to Kafka.
	Events int
	// Poison is the number of records that nobody can bill.
	Poison int
	// Prefix keeps the ids of two workloads on one instance apart.
	Prefix string
	Rates  oracle.Rates
}

// Ending is how a reservation ends.
type Ending int

// The endings.
const (
	Settled   Ending = iota
	Failed           // the provider answered with an error: nothing was used
	Cut              // a stream was cut and nobody knows the usage: the estimate is charged
	Released         // the call was never made
	Abandoned        // the owner died: UNSETTLED at the estimate
	Late             // abandoned, and settled after the expiry
)

// Call is one reservation with its end.
type Call struct {
	ID, Tenant, Root         string
	Agent, Parent            string // Parent "" = the root's own agent
	CostCenter               string
	Model                    string
	Input, Output, MaxOutput int64
	Ending                   Ending
}

// Event is a usage event without a reservation.
type Event struct {
	ID, Tenant, Agent, CostCenter, Model string
	Input, Output                        int64
	// DaysLate is how long ago it happened.
	DaysLate int
	// Copies is how often it is sent, at least once.
	Copies int
}

// Poison is a record that must end in the dead letter, with the reason expected there.
type Poison struct {
	Tenant, Value, Reason string
}

// Workload is everything that is played, and what must come of it.
type Workload struct {
	Tenants []string
	Markups map[string]string // percent
	Calls   []Call
	Events  []Event
	Poison  []Poison
	// Bill is the truth.
	Bill oracle.Bill
	// Unsettled is the number of UNSETTLED entries, corrected ones included.
	Unsettled int
}

// models are what calls are made of; all have text rates in the sample prices.
func models() []string { return []string{"gpt-4o", "gpt-4o-mini", "gpt-4.1"} }

// maker holds what the steps of Make share.
type maker struct {
	rng   *rand.Rand
	tally *oracle.Tally
	w     *Workload
}

// Make makes up a workload. Its errors are prices that are missing.
func Make(c Config) (Workload, error) {
	w := Workload{Markups: map[string]string{}}
	markups := []string{"0", "20", "12.5", "7.25"}
	for i := range c.Tenants {
		id := fmt.Sprintf("tenant-%c", 'a'+i)
		w.Tenants = append(w.Tenants, id)
		w.Markups[id] = markups[i%len(markups)]
	}
	tally, err := oracle.NewTally(c.Rates, w.Markups)
	if err != nil {
		return Workload{}, err
	}
	m := maker{rand.New(rand.NewPCG(c.Seed, 1)), tally, &w}
	for i, tenant := range w.Tenants {
		for lead := range c.Leads {
			calls := 6 + m.rng.IntN(10)
			if i == 0 && lead == 0 && c.FanOut > 0 {
				calls = 1 + c.FanOut
			}
			if err := m.lead(tenant, fmt.Sprintf("%s%s-lead-%04d", c.Prefix, tenant, lead), calls); err != nil {
				return Workload{}, err
			}
		}
		for n := range c.Events {
			if err := m.event(c.Prefix, tenant, n); err != nil {
				return Workload{}, err
			}
		}
	}
	for n := range c.Poison {
		m.poison(n)
	}
	m.rng.Shuffle(len(w.Calls), func(i, j int) { w.Calls[i], w.Calls[j] = w.Calls[j], w.Calls[i] })
	m.rng.Shuffle(len(w.Events), func(i, j int) { w.Events[i], w.Events[j] = w.Events[j], w.Events[i] })
	w.Bill = tally.Bill()
	return w, nil
}

// lead makes one execution: a lead-qualifier and the agents that it calls.
func (m maker) lead(tenant, root string, calls int) error {
	center := []string{"sales", "support", ""}[m.rng.IntN(3)]
	agents := []string{"scraper", "summariser", "enricher"}
	for n := range calls {
		c := Call{
			ID: fmt.Sprintf("%s.%03d", root, n), Tenant: tenant, Root: root, CostCenter: center, Agent: "lead-qualifier",
			Model: models()[m.rng.IntN(3)], Input: 20 + m.rng.Int64N(6_000), Output: 1 + m.rng.Int64N(900), Ending: m.ending(),
		}
		if n > 0 {
			c.Agent, c.Parent = agents[m.rng.IntN(3)], "lead-qualifier"
		}
		c.MaxOutput = c.Output + m.rng.Int64N(600)
		if err := m.count(c); err != nil {
			return err
		}
		m.w.Calls = append(m.w.Calls, c)
	}
	return nil
}

// ending draws how a call ends: nearly always well.
func (m maker) ending() Ending {
	switch n := m.rng.IntN(100); {
	case n < 3:
		return Failed
	case n < 6:
		return Cut
	case n < 8:
		return Released
	case n < 9:
		return Abandoned
	case n < 10:
		return Late
	}
	return Settled
}

// count adds to the truth what the call must cost.
func (m maker) count(c Call) error {
	key := oracle.Key{Tenant: c.Tenant, CostCenter: c.CostCenter, Agent: c.Agent}
	switch c.Ending {
	case Released:
		return nil
	case Failed:
		return m.tally.Add(key, c.Model, 1, 0, 0)
	case Cut:
		return m.tally.Add(key, c.Model, 1, c.Input, c.MaxOutput)
	case Abandoned:
		m.w.Unsettled++
		return m.tally.Add(key, c.Model, 1, c.Input, c.MaxOutput)
	case Late:
		m.w.Unsettled++
	}
	return m.tally.Add(key, c.Model, 1, c.Input, c.Output)
}

func (m maker) event(prefix, tenant string, n int) error {
	e := Event{
		ID: fmt.Sprintf("%s%s-event-%05d", prefix, tenant, n), Tenant: tenant, Agent: "nightly-batch", CostCenter: []string{"research", ""}[m.rng.IntN(2)],
		Model: models()[m.rng.IntN(3)], Input: m.rng.Int64N(9_000), Output: m.rng.Int64N(700), Copies: 1,
	}
	if m.rng.IntN(10) == 0 {
		e.Copies = 2 + m.rng.IntN(2)
	}
	if m.rng.IntN(20) == 0 {
		e.DaysLate = 1 + m.rng.IntN(3)
	}
	m.w.Events = append(m.w.Events, e)
	return m.tally.Add(oracle.Key{Tenant: tenant, CostCenter: e.CostCenter, Agent: e.Agent}, e.Model, 1, e.Input, e.Output)
}

// poison makes one of the records that stand in no bill.
func (m maker) poison(n int) {
	tenant := m.w.Tenants[n%len(m.w.Tenants)]
	kinds := []Poison{
		{tenant, `{"specversion":"1.0","id":"x`, "malformed"},
		{tenant, envelope("None", tenant, `{"provider":"openai","model":"gpt-4o","usage":{"prompt_tokens":1,"completion_tokens":1}}`), "no_id"},
		{tenant, envelope(fmt.Sprintf("poison-%d", n), tenant, `{"provider":"openai","model":"gpt-4o","meters":{"input_tokens":-5}}`), "negative_meter"},
	}
	m.w.Poison = append(m.w.Poison, kinds[n%len(kinds)])
}
