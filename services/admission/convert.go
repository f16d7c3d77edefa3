package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/identity"
)

// maxEstimateMeters bounds the meters of one estimate: they travel in the hold (budgetstore.MaxContext).
const maxEstimateMeters = 16

// minimumHold is what every call holds at least, a millionth of a dollar, so that a zero estimate is no free pass.
const minimumHold money.Nano = 1000

// call is what was asked at the reservation: kept with the hold, in the receipt and in the row of its end, because what
// ends the reservation is priced and attributed by it. How it is kept is in kept.go; the tags are of its first form.
type call struct {
	Provider     string                   `json:"provider"`
	Model        string                   `json:"model"`
	PriceVersion string                   `json:"price_version"`
	EstimateUSD  money.USD                `json:"estimate_usd"`
	Meters       map[string]money.Decimal `json:"meters"`
	Effect       string                   `json:"effect,omitempty"`
	Root         string                   `json:"root,omitempty"`
	ParentAgent  string                   `json:"parent_agent,omitempty"`
	Agent        string                   `json:"agent,omitempty"`
	CostCenter   string                   `json:"cost_center,omitempty"`
	Depth        int                      `json:"depth,omitempty"`
	// APIKey is the key that reserved, Scopes the kinds of sub-scopes that the call counts in (countedIn).
	APIKey string `json:"api_key,omitempty"`
	Scopes string `json:"scopes,omitempty"`
	// Branches are those that the call counts in, with their limits (branchText).
	Branches string `json:"branches,omitempty"`
	// Dearest: it had no price, so EstimateUSD is what is held at its provider's dearest rates, and nobody is charged by it.
	Dearest bool `json:"dearest,omitempty"`
	// Saving is the plan's cheaper model, only while a hold keeps both quotes; Asked the model that was asked for, only
	// where the cheaper one was granted.
	Saving *quoted `json:"saving,omitempty"`
	Asked  string  `json:"asked,omitempty"`
	// Plan (see planOf) and Language, "" where the request named none, are what the answer's texts are made by.
	Plan     int64           `json:"plan,omitempty"`
	Language ladder.Language `json:"lang,omitempty"`
}

// limitsOf is the part of a contract that the budget store checks.
func limitsOf(c *tenant.Contract) admit.Limits {
	l := admit.Limits{
		Requests: c.Limits.RequestsPerMinute, InputTokens: c.Limits.InputTokensPerMinute, OutputTokens: c.Limits.OutputTokensPerMinute,
		Concurrency: c.Limits.Concurrency, OpenExecutions: c.Limits.OpenExecutions,
		Minute: admit.Hard(c.Ceilings.Minute), Day: admit.Hard(c.Ceilings.Day), Month: admit.Hard(c.Ceilings.Month),
		Rolling30: c.Month == tenant.MonthRolling30, Ladder: ladder.Thresholds(c.Ladder),
	}
	if c.SoftDay {
		l.Day = admit.Soft(c.Ceilings.Day, c.Overrun)
	}
	return l
}

// executionLimits are the stricter of what the contract and the caller say; 0 = no limit.
func executionLimits(c *tenant.Contract, maxCost money.Nano, maxDepth int) admit.ExecutionLimits {
	return admit.ExecutionLimits{
		MaxCost:  stricter(c.Execution.MaxCost, maxCost),
		MaxDepth: stricter(int64(c.Execution.MaxDepth), int64(maxDepth)),
		MaxCalls: c.Execution.MaxCalls,
	}
}

func stricter[N ~int64](a, b N) N {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// counted is what a raw cost counts as against the tenant's ceilings.
func counted(c *tenant.Contract, raw money.USD) money.USD {
	if c.Count == tenant.CountBilled {
		return money.ApplyMarkup(raw, c.Markup)
	}
	return raw
}

// estimate reads the estimate of a request. Rival fields for the largest output are all accepted; the largest counts,
// because that is what a provider may obey. A missing one is the model's own maximum.
func estimate(given map[string]json.Number, v pricing.Version) (pricing.Estimate, *Problem) {
	if len(given) == 0 {
		return pricing.Estimate{}, invalid("estimate", "estimate is missing: at least input_tokens, or another meter.")
	}
	if len(given) > maxEstimateMeters {
		return pricing.Estimate{}, invalid("estimate", fmt.Sprintf("estimate has more than %d members.", maxEstimateMeters))
	}
	var e pricing.Estimate
	counts := [...]struct {
		name string
		to   *int64
	}{{"input_tokens", &e.InputTokens}, {"max_output_tokens", &e.MaxOutputTokens}, {"max_completion_tokens", &e.MaxOutputTokens},
		{"max_tokens", &e.MaxOutputTokens}, {"output_tokens", &e.MaxOutputTokens}}
	found := 0
	for _, f := range counts {
		number, ok := given[f.name]
		if !ok {
			continue
		}
		found++
		n, whole := wholeNumber(number)
		if !whole || n < 0 || n > admit.Unlimited {
			return pricing.Estimate{}, invalid("estimate."+f.name, fmt.Sprintf("estimate.%s is %.40s, not a whole number of tokens from 0 to %d.", f.name, number, admit.Unlimited))
		}
		*f.to = max(*f.to, n)
	}
	if found < len(given) { // other meters besides
		rest := maps.Clone(given)
		for _, f := range counts {
			delete(rest, f.name)
		}
		var err error
		if e.Meters, err = usage.ParseMeters(rest); err != nil {
			return pricing.Estimate{}, invalid("estimate", "estimate: "+err.Error())
		}
	}
	e.MaxOutputTokens = v.OutputBound(e.MaxOutputTokens)
	if e.MaxOutputTokens == 0 && generates(v.Mode) {
		return pricing.Estimate{}, invalid("estimate.max_output_tokens", "estimate.max_output_tokens is missing or 0, and the price book does not know this model's maximum.")
	}
	return e, nil
}

// wholeNumber reads a whole number in whatever way JSON writes it: 1000, 1000.0 and 1e3 are one.
func wholeNumber(number json.Number) (int64, bool) {
	if n, err := number.Int64(); err == nil {
		return n, true
	}
	d, err := money.ParseDecimal(number.String())
	if err != nil {
		return 0, false
	}
	return d.Int64()
}

// spelled is a quantity as a repeat must state it: a whole one in digits, however it was written.
func spelled(number json.Number) string {
	if strings.ContainsAny(number.String(), ".eE") {
		if n, whole := wholeNumber(number); whole {
			return strconv.FormatInt(n, 10)
		}
	}
	return number.String()
}

// generates reports whether a model of this mode writes tokens, so that an estimate without output would be too low.
func generates(mode string) bool {
	switch mode {
	case "", "chat", "completion", "responses":
		return true
	default:
		return false
	}
}

// meters is the whole estimate as quantities.
func meters(e pricing.Estimate) map[string]money.Decimal {
	out := make(map[string]money.Decimal, len(e.Meters)+2)
	for m, q := range e.Meters {
		out[string(m)] = q
	}
	for _, tokens := range [...]struct {
		meter usage.Meter
		n     int64
	}{{usage.Input, e.InputTokens}, {usage.Output, e.MaxOutputTokens}} {
		if tokens.n <= 0 {
			continue
		}
		q := money.NewDecimal(tokens.n)
		if more, ok := out[string(tokens.meter)]; ok {
			q = more.Add(q)
		}
		out[string(tokens.meter)] = q
	}
	return out
}

// tokens are the input and output tokens of an estimate, all meters of each kind together.
func tokens(e pricing.Estimate) (in, out int64) {
	u := usage.FromMeters(e.Meters)
	return e.InputTokens + u.InputTokens(), e.MaxOutputTokens + u.OutputTokens()
}

// content is what a repeat of the reservation must state alike. The execution's own figures come from its token, which
// may be renewed in between, so the token itself is no part of it.
func content(req *reserveRequest, c *call) admit.Content {
	effect := c.Effect
	if effectOf(effect) == admit.Read { // said, or left out
		effect = ""
	}
	out := admit.Content{Provider: req.Provider, Model: req.Model, Effect: effect, Root: c.Root, Agent: c.Agent,
		Parent: c.ParentAgent, CostCentre: c.CostCenter, Depth: int64(c.Depth), LeaseSeconds: req.LeaseSeconds}
	out.Meters = make([]admit.Meter, 0, len(req.Estimate))
	for name, quantity := range req.Estimate {
		out.Meters = append(out.Meters, admit.Meter{Name: name, Quantity: spelled(quantity)})
	}
	slices.SortFunc(out.Meters, func(a, b admit.Meter) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// answer is what an admitted reservation is told. It is a pure function of what the store keeps with the hold, so a
// repeat gets the same bytes.
func (h *hold) answer(secret identity.Secret, k *tenant.Contract) (*reserveAnswer, error) {
	a := &h.Answer
	receipt, err := identity.SignReceipt(secret, h.receipt())
	if err != nil {
		return nil, err
	}
	out := &reserveAnswer{
		ReservationID: h.ID, State: stateOpen, Rung: a.Rung, Mode: a.Rung.Mode(), Model: h.call.Model,
		Cache: cacheOf(k, a.Rung), PercentUsed: a.PercentUsed(),
		Message:   told(k, h.call.Language, a.Rung, a.PercentUsed(), a.Saving).Message(),
		Reserved:  amountsOf(a.Reserved),
		Remaining: remaining{nanoUSD(a.Remaining.Minute), nanoUSD(a.Remaining.Day), nanoUSD(a.Remaining.Month)},
		Receipt:   receipt, ReservedAt: clock(a.ReservedAt), ExpiresAt: clock(a.LeaseUntil),
	}
	if h.call.Dearest {
		out.Flags = []string{flagDearestRate}
	}
	if h.call.Root != "" {
		x := &a.Execution
		out.Execution = &executionPosition{RootExecutionID: h.call.Root, SpentUSD: nanoUSD(x.Spent), Depth: x.Depth, Calls: x.Calls}
		if x.Limited {
			left := nanoUSD(x.Remaining)
			out.Execution.RemainingUSD = &left
		}
	}
	return out, nil
}

// States of a reservation that has not ended; the others are pgstore's outcomes.
const (
	stateOpen     = "open"
	stateExpiring = "expiring"
)

// hold is an admitted reservation with the tenant and epoch it was admitted in.
type hold struct {
	Tenant      string
	Epoch       int64
	ID          string
	Fingerprint admit.Fingerprint
	Answer      admit.Answer
	call        call
	rawCall     []byte
}

func (h *hold) receipt() identity.Receipt {
	a := &h.Answer
	return identity.Receipt{Tenant: h.Tenant, ReservationID: h.ID, ReservedAt: a.ReservedAt.UnixNano(), ExpiresAt: a.LeaseUntil.UnixNano(),
		Fingerprint: h.Fingerprint, Epoch: h.Epoch, Day: a.Day, Month: a.Month, HeldNanos: int64(a.Reserved.Nanos),
		InputTokens: a.Reserved.InputTokens, OutputTokens: a.Reserved.OutputTokens, Call: h.rawCall}
}

func amountsOf(e admit.Estimate) amounts {
	return amounts{CostUSD: nanoUSD(e.Nanos), InputTokens: e.InputTokens, OutputTokens: e.OutputTokens}
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// costLimit reads max_cost_usd; 0 = none.
func costLimit(usd *money.USD) (money.Nano, *Problem) {
	if usd == nil {
		return 0, nil
	}
	n, err := money.WholeNano(*usd)
	if err != nil || n <= 0 {
		return 0, invalid("max_cost_usd", notLimit)
	}
	return n, nil
}

// unpriced reports whether err says that there is no price, which is a state and never $0.
func unpriced(err error) bool {
	_, is := errors.AsType[*pricing.UnpricedError](err)
	return is
}
