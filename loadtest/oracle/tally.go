package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// unassigned is the cost centre of calls that name none.
const unassigned = "unassigned"

// Key is where a cost belongs.
type Key struct{ Tenant, CostCenter, Agent string }

// Line is one line of a bill: calls, tokens and dollars of one Key. Raw is the provider's list price, Billed what the
// tenant is billed.
type Line struct {
	Key
	Calls, Input, Output int64
	Raw, Billed          *big.Rat
}

// Bill is all lines, in the order of their keys.
type Bill []Line

// Rate is one model's price in dollars a token.
type Rate struct{ Input, Output *big.Rat }

// Rates are the rates of text tokens by model.
type Rates map[string]Rate

// ReadRates reads the text rates of a price file in LiteLLM's format. Rows without both, or whose model is said to be
// of another provider, are left out.
func ReadRates(raw []byte, provider string) (Rates, error) {
	var rows map[string]struct {
		Provider string          `json:"litellm_provider"`
		Input    json.RawMessage `json:"input_cost_per_token"`
		Output   json.RawMessage `json:"output_cost_per_token"`
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, fmt.Errorf("oracle: price rows: %w", err)
	}
	rates := Rates{}
	for model, row := range rows {
		in, okIn := new(big.Rat).SetString(string(row.Input))
		out, okOut := new(big.Rat).SetString(string(row.Output))
		if row.Provider == provider && okIn && okOut {
			rates[model] = Rate{in, out}
		}
	}
	return rates, nil
}

// Cost is the list price of the tokens; an unknown model is an error, never $0.
func (r Rates) Cost(model string, input, output int64) (*big.Rat, error) {
	rate, ok := r[model]
	if !ok {
		return nil, fmt.Errorf("oracle: no price of %q", model)
	}
	in := new(big.Rat).Mul(rate.Input, new(big.Rat).SetInt64(input))
	return in.Add(in, new(big.Rat).Mul(rate.Output, new(big.Rat).SetInt64(output))), nil
}

// Tally adds calls up to a bill.
type Tally struct {
	rates   Rates
	markups map[string]*big.Rat // factor by tenant
	lines   map[Key]*Line
}

// NewTally starts an empty tally. Markups are percentages by tenant as decimal text; a tenant without one is an error
// of Add.
func NewTally(rates Rates, markups map[string]string) (*Tally, error) {
	t := &Tally{rates: rates, markups: map[string]*big.Rat{}, lines: map[Key]*Line{}}
	for tenant, text := range markups {
		percent, ok := new(big.Rat).SetString(text)
		if !ok {
			return nil, fmt.Errorf("oracle: markup %q of %s", text, tenant)
		}
		t.markups[tenant] = percent.Quo(percent, big.NewRat(100, 1)).Add(percent, big.NewRat(1, 1))
	}
	return t, nil
}

// Add counts n equal calls of one model.
func (t *Tally) Add(k Key, model string, n, input, output int64) error {
	factor, ok := t.markups[k.Tenant]
	if !ok {
		return fmt.Errorf("oracle: no markup of %q", k.Tenant)
	}
	one, err := t.rates.Cost(model, input, output)
	if err != nil {
		return err
	}
	if k.CostCenter == "" {
		k.CostCenter = unassigned
	}
	raw := one.Mul(one, new(big.Rat).SetInt64(n))
	t.add(Line{k, n, n * input, n * output, raw, new(big.Rat).Mul(raw, factor)})
	return nil
}

// add puts a line into the one of its key.
func (t *Tally) add(l Line) {
	if t.lines[l.Key] == nil {
		zero := zeroLine(l.Key)
		t.lines[l.Key] = &zero
	}
	t.lines[l.Key].add(l)
}

func zeroLine(k Key) Line { return Line{Key: k, Raw: new(big.Rat), Billed: new(big.Rat)} }

func (l *Line) add(o Line) {
	l.Calls, l.Input, l.Output = l.Calls+o.Calls, l.Input+o.Input, l.Output+o.Output
	l.Raw.Add(l.Raw, o.Raw)
	l.Billed.Add(l.Billed, o.Billed)
}

// Bill is everything added so far.
func (t *Tally) Bill() Bill {
	bill := make(Bill, 0, len(t.lines))
	for _, line := range t.lines {
		bill = append(bill, Line{line.Key, line.Calls, line.Input, line.Output, new(big.Rat).Set(line.Raw), new(big.Rat).Set(line.Billed)})
	}
	slices.SortFunc(bill, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.CostCenter, b.CostCenter), cmp.Compare(a.Agent, b.Agent))
	})
	return bill
}

// Total adds up the lines of the tenants named, or of all if none is.
func (b Bill) Total(tenants ...string) Line {
	sum := zeroLine(Key{Tenant: strings.Join(tenants, " + ")})
	for _, l := range b {
		if len(tenants) == 0 || slices.Contains(tenants, l.Tenant) {
			sum.add(l)
		}
	}
	return sum
}

// Plus is the bill of both.
func (b Bill) Plus(other Bill) Bill {
	sum := Tally{lines: map[Key]*Line{}}
	for _, l := range slices.Concat(b, other) {
		sum.add(l)
	}
	return sum.Bill()
}

// Differences says in words where got is not b; none means equal to the last digit.
func (b Bill) Differences(got Bill) []string {
	want, have := map[Key]Line{}, map[Key]Line{}
	for _, l := range b {
		want[l.Key] = l
	}
	var found []string
	for _, l := range got {
		have[l.Key] = l
		if _, ok := want[l.Key]; !ok {
			found = append(found, fmt.Sprintf("%s is not expected", l))
		}
	}
	for _, l := range b {
		g, ok := have[l.Key]
		switch {
		case !ok:
			found = append(found, fmt.Sprintf("%s is missing", l))
		case l.Calls != g.Calls || l.Input != g.Input || l.Output != g.Output || l.Raw.Cmp(g.Raw) != 0 || l.Billed.Cmp(g.Billed) != 0:
			found = append(found, fmt.Sprintf("%s is wrong: got %s", l, g))
		}
	}
	return found
}

// String is the line on one line of text, with exact dollars.
func (l Line) String() string {
	return fmt.Sprintf("%s/%s/%s: %d calls, %d+%d tokens, $%s raw, $%s billed",
		l.Tenant, l.CostCenter, l.Agent, l.Calls, l.Input, l.Output, Dollars(l.Raw), Dollars(l.Billed))
}

// Dollars is an amount as exact decimal text without needless zeros. What 18 places cannot hold ends in "…".
func Dollars(r *big.Rat) string {
	s := r.FloatString(18)
	if back, ok := new(big.Rat).SetString(s); !ok || back.Cmp(r) != 0 {
		return s + "…"
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
