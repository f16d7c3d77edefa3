// Package demo is what `make run` shows: one hour of two production LLM services by three tenants, a trial tenant that
// is cut, usage that never asked, and a loop that runs away; then the bill, the check against the oracle, and the audit.
//
// It owns the scenario (scenario.json, tenants.yaml), who makes which call, and what is shown. It does not own the bill:
// package oracle computes it from the same files by code of its own.
//
// Invariants: who makes a call follows from its row alone, so every run has the same bill; a retry keeps its id; the
// files' time sets the pace only.
package demo

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/weir-project/weir/loadtest"
	"github.com/weir-project/weir/loadtest/trace"
)

// Scenario is scenario.json.
type Scenario struct {
	Provider string            `json:"provider"`
	Model    string            `json:"model"`
	Markups  map[string]string `json:"markup_percent"`
	Trace    Trace             `json:"trace"`
	Trial    Trial             `json:"trial"`
	Direct   Direct            `json:"direct"`
	Runaway  Direct            `json:"runaway"`
}

// Trace says who makes the calls of the trace files. The rows of both, in the order of time, are cut into leads of
// CallsPerLead calls, which take turns among the tenants and, within a tenant, among its cost centres. The first call
// of a lead is that of its root agent, Agents[0]; the rest go round the other agents. The rows of the fan-out are one
// lead of their own, all of whose calls but the first are those of Agents[1].
type Trace struct {
	Turns        []string            `json:"turns"`
	CostCenters  map[string][]string `json:"cost_centers"`
	Agents       []string            `json:"agents"`
	CallsPerLead int                 `json:"calls_per_lead"`
	FanOut       struct {
		FirstRow   int    `json:"first_row"`
		Calls      int    `json:"calls"`
		Tenant     string `json:"tenant"`
		CostCenter string `json:"cost_center"`
	} `json:"fan_out"`
}

// Trial makes equal calls, one at a time, until its month is used up.
type Trial struct {
	Tenant     string `json:"tenant"`
	CostCenter string `json:"cost_center"`
	Agent      string `json:"agent"`
	Input      int64  `json:"input_tokens"`
	Output     int64  `json:"output_tokens"`
	MonthUSD   string `json:"month_usd"`
}

// Direct is a number of equal usage events that go straight to Kafka; SentTwice of them are sent a second time.
type Direct struct {
	Tenant     string `json:"tenant"`
	CostCenter string `json:"cost_center"`
	Agent      string `json:"agent"`
	Events     int    `json:"events"`
	SentTwice  int    `json:"sent_twice"`
	Input      int64  `json:"input_tokens"`
	Output     int64  `json:"output_tokens"`
}

// Lead is one execution of the trace: a root agent and those it calls.
type Lead struct {
	Tenant, Root, CostCenter string
	// Calls is how many calls it makes.
	Calls int
}

// Call is one row of the trace.
type Call struct {
	trace.Call
	ID    string
	Agent string
	Lead  *Lead
}

// load reads the scenario strictly, and the rows of both files in the order of time.
func load() (s Scenario, rows []trace.Call, err error) {
	raw, err := loadtest.Input(loadtest.Scenario)
	if err != nil {
		return s, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, nil, fmt.Errorf("scenario: %w", err)
	}
	var traces [][]trace.Call
	for _, name := range []string{loadtest.TraceConv, loadtest.TraceCode} {
		raw, err := loadtest.Input(name)
		if err != nil {
			return s, nil, err
		}
		calls, err := trace.Read(bytes.NewReader(raw))
		if err != nil {
			return s, nil, fmt.Errorf("%s: %w", name, err)
		}
		traces = append(traces, calls)
	}
	return s, trace.Merge(traces...), nil
}

// leads cuts the rows into executions and gives the calls in the order of time.
func (t Trace) leads(rows []trace.Call) []Call {
	fan := &Lead{Tenant: t.FanOut.Tenant, CostCenter: t.FanOut.CostCenter, Root: "fan-out"}
	var ordinary []*Lead
	calls := make([]Call, 0, len(rows))
	n := 0 // among the rows outside the fan-out
	for i, row := range rows {
		lead, agent := fan, t.Agents[1]
		switch within := i - t.FanOut.FirstRow; {
		case within == 0:
			agent = t.Agents[0]
		case within < 0 || within >= t.FanOut.Calls:
			if n%t.CallsPerLead == 0 {
				ordinary = append(ordinary, t.lead(n/t.CallsPerLead))
			}
			lead, agent = ordinary[n/t.CallsPerLead], t.agent(n%t.CallsPerLead)
			n++
		}
		lead.Calls++
		calls = append(calls, Call{Call: row, ID: fmt.Sprintf("call-%05d", i), Agent: agent, Lead: lead})
	}
	return calls
}

func (t Trace) lead(n int) *Lead {
	tenant := t.Turns[n%len(t.Turns)]
	centers := t.CostCenters[tenant]
	return &Lead{Tenant: tenant, Root: fmt.Sprintf("lead-%04d", n), CostCenter: centers[n/len(t.Turns)%len(centers)]}
}

func (t Trace) agent(position int) string {
	if position == 0 {
		return t.Agents[0]
	}
	return t.Agents[1+(position-1)%(len(t.Agents)-1)]
}
