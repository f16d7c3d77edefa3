package oracle

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/weir-project/weir/loadtest"
)

// scenario is what the oracle reads of scenario.json.
type scenario struct {
	Provider string            `json:"provider"`
	Model    string            `json:"model"`
	Markups  map[string]string `json:"markup_percent"`
	Trace    struct {
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
	} `json:"trace"`
	Trial   fixed `json:"trial"`
	Direct  fixed `json:"direct"`
	Runaway fixed `json:"runaway"`
}

// fixed is a number of equal calls.
type fixed struct {
	Tenant     string `json:"tenant"`
	CostCenter string `json:"cost_center"`
	Agent      string `json:"agent"`
	Events     int64  `json:"events"`
	Input      int64  `json:"input_tokens"`
	Output     int64  `json:"output_tokens"`
	MonthUSD   string `json:"month_usd"` // of the trial
}

func (f fixed) key() Key { return Key{f.Tenant, f.CostCenter, f.Agent} }

// Expected is the whole bill of the demo, to the digit, from the files that the demo plays.
func Expected() (Bill, error) {
	in := map[string][]byte{}
	for _, name := range []string{loadtest.TraceConv, loadtest.TraceCode, loadtest.Prices, loadtest.Scenario} {
		raw, err := loadtest.Input(name)
		if err != nil {
			return nil, err
		}
		in[name] = raw
	}
	var s scenario
	if err := json.Unmarshal(in[loadtest.Scenario], &s); err != nil {
		return nil, fmt.Errorf("oracle: scenario: %w", err)
	}
	rates, err := ReadRates(in[loadtest.Prices], s.Provider)
	if err != nil {
		return nil, err
	}
	tally, err := NewTally(rates, s.Markups)
	if err != nil {
		return nil, err
	}
	rows, err := merged(in[loadtest.TraceConv], in[loadtest.TraceCode])
	if err != nil {
		return nil, err
	}
	admitted, err := s.trialCalls(rates)
	if err != nil {
		return nil, err
	}
	errs := []error{
		tally.Add(s.Trial.key(), s.Model, admitted, s.Trial.Input, s.Trial.Output),
		tally.Add(s.Direct.key(), s.Model, s.Direct.Events, s.Direct.Input, s.Direct.Output),
		tally.Add(s.Runaway.key(), s.Model, s.Runaway.Events, s.Runaway.Input, s.Runaway.Output),
	}
	for i, r := range rows {
		errs = append(errs, tally.Add(s.owner(i), s.Model, 1, r.input, r.output))
	}
	return tally.Bill(), errors.Join(errs...)
}

// trialCalls is how many equal calls, one after the other, fit the trial's month.
func (s scenario) trialCalls(rates Rates) (int64, error) {
	one, err := rates.Cost(s.Model, s.Trial.Input, s.Trial.Output)
	if err != nil {
		return 0, err
	}
	month, ok := new(big.Rat).SetString(s.Trial.MonthUSD)
	if !ok || one.Sign() <= 0 {
		return 0, fmt.Errorf("oracle: trial's month %q, or its price %s", s.Trial.MonthUSD, one)
	}
	q := month.Quo(month, one)
	return new(big.Int).Quo(q.Num(), q.Denom()).Int64(), nil
}

// owner is whose row i of the merged trace is. The fan-out's rows are one lead; the others are cut into leads of equal
// length, which take turns among the tenants, and within a tenant among its cost centres. A lead's first call is its
// root agent's, the rest go round the other agents (all to the first of them in the fan-out).
func (s scenario) owner(i int) Key {
	t, f := s.Trace, s.Trace.FanOut
	switch {
	case i == f.FirstRow:
		return Key{f.Tenant, f.CostCenter, t.Agents[0]}
	case i > f.FirstRow && i < f.FirstRow+f.Calls:
		return Key{f.Tenant, f.CostCenter, t.Agents[1]}
	case i >= f.FirstRow+f.Calls:
		i -= f.Calls
	}
	lead, position := i/t.CallsPerLead, i%t.CallsPerLead
	tenant := t.Turns[lead%len(t.Turns)]
	centers := t.CostCenters[tenant]
	agent := t.Agents[0]
	if position > 0 {
		agent = t.Agents[1+(position-1)%(len(t.Agents)-1)]
	}
	return Key{tenant, centers[lead/len(t.Turns)%len(centers)], agent}
}

type row struct {
	at            string // sorts as text: the files' times have equal length
	input, output int64
}

// merged is both files in the order of time; conv goes first where the times are equal.
func merged(conv, code []byte) ([]row, error) {
	var all []row
	for _, file := range [][]byte{conv, code} {
		records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
		if err != nil {
			return nil, fmt.Errorf("oracle: trace: %w", err)
		}
		if len(records) == 0 {
			return nil, errors.New("oracle: a trace without its header")
		}
		for _, r := range records[1:] {
			in, errIn := strconv.ParseInt(r[1], 10, 64)
			out, errOut := strconv.ParseInt(r[2], 10, 64)
			if err := errors.Join(errIn, errOut); err != nil {
				return nil, fmt.Errorf("oracle: trace: %w", err)
			}
			all = append(all, row{r[0], in, out})
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}
