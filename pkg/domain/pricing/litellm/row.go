package litellm

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// row is one price row while it is read.
type row struct {
	version pricing.Version
	odd     []Oddity
	numbers map[string]money.Decimal // fields whose meaning depends on others
}

func newRow(e entry) *row {
	v := pricing.Version{Model: e.key, Currency: "USD", RawRow: e.value, Multipliers: map[string]money.Decimal{}}
	return &row{version: v, numbers: map[string]money.Decimal{}}
}

func (r *row) report(field, kind, reason string, args ...any) {
	r.odd = append(r.odd, Oddity{Row: r.version.Model, Field: field, Kind: kind, Reason: fmt.Sprintf(reason, args...)})
}

// read fills the version and reports whether it is worth importing.
func (r *row) read(raw json.RawMessage) bool {
	fields, err := object(raw, maxField)
	if err != nil {
		r.report("", Skipped, "%v", err)
		return false
	}
	r.labels(fields)
	if r.version.Provider == "" {
		r.report("", Skipped, "no litellm_provider")
		return false
	}
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.key] {
			r.report(f.key, BadValue, "second field of the same name")
			continue
		}
		seen[f.key] = true
		r.field(f.key, f.value)
	}
	r.dependent()
	above := func(rate pricing.Rate) bool { return rate.AboveTokens > 0 }
	r.version.Tier.Inclusive = r.version.Provider == "xai" && slices.ContainsFunc(r.version.Rates, above)
	if len(r.version.Rates) == 0 {
		r.report("", Skipped, "no price")
		return false
	}
	slices.SortStableFunc(r.version.Rates, func(a, b pricing.Rate) int { return int(a.AboveTokens - b.AboveTokens) })
	r.plausible()
	if _, err := r.version.Seal(); err != nil {
		r.report("", Skipped, "%v", err)
		return false
	}
	return true
}

// labels are read first: the meaning of some prices depends on the mode.
func (r *row) labels(fields []entry) {
	for _, f := range fields {
		switch f.key {
		case "litellm_provider":
			r.version.Provider = r.label(f)
		case "mode":
			r.version.Mode = r.label(f)
		}
	}
}

func (r *row) label(f entry) (s string) {
	if err := json.Unmarshal(f.value, &s); err != nil {
		r.report(f.key, BadValue, "not a string")
	}
	return s
}

func (r *row) field(name string, raw json.RawMessage) {
	switch name {
	case "litellm_provider", "mode":
		return
	case "max_input_tokens", "max_output_tokens":
		r.limit(name, raw)
		return
	case "search_context_cost_per_query":
		r.webSearch(name, raw)
		return
	case "provider_specific_entry":
		r.entries(name, raw)
		return
	case "tiered_pricing":
		r.tiers(name, raw)
		return
	case "web_search_billing_unit":
		r.report(name, Unmapped, "%s: which searches count is the caller's to know", raw)
		return
	case "input_dbu_cost_per_token", "output_dbu_cost_per_token":
		r.report(name, NotUSD, "Databricks units; the dollar field beside it is imported")
		return
	case "input_cost_per_video_per_second_above_8s_interval", "input_cost_per_video_per_second_above_15s_interval":
		r.report(name, Unmapped, "priced by the length of each video, which no meter tells")
		return
	}
	if factor := multiplier(name); factor != "" {
		if d, ok := r.number(name, raw); ok {
			r.version.Multipliers[factor] = d
		}
		return
	}
	r.price(name, raw)
}

func (r *row) price(name string, raw json.RawMessage) {
	f := splitField(name)
	m, thousand := perUnit(f.base)
	if m == "" && !dependsOnOthers(f.base) {
		if !describes(name) {
			r.report(name, Unmapped, "no rule for this field")
		}
		return
	}
	d, ok := r.number(name, raw)
	switch {
	case !ok:
	case m == "" && (f.above > 0 || f.tier != ""):
		r.report(name, Unmapped, "no tiers for this kind of price")
	case m == "":
		r.numbers[f.base] = d
	case thousand:
		r.rate(m, f, d.PerThousand())
	default:
		r.rate(m, f, d)
	}
}

func (r *row) rate(m usage.Meter, f field, d money.Decimal) {
	r.version.Rates = append(r.version.Rates, pricing.Rate{Meter: m, ServiceTier: f.tier, AboveTokens: f.above, USDPerUnit: d})
}

// number reads a price: a JSON number, or the same as a string.
func (r *row) number(name string, raw json.RawMessage) (money.Decimal, bool) {
	var d money.Decimal
	if err := d.UnmarshalJSON(raw); err != nil {
		r.report(name, BadValue, "%.40s is not a number in range", raw)
		return d, false
	}
	if d.Sign() < 0 {
		r.report(name, BadValue, "%s is negative", d)
		return d, false
	}
	if d.Digits() >= 15 {
		r.report(name, FloatNoise, "%s", d)
	}
	return d, true
}

func (r *row) limit(name string, raw json.RawMessage) {
	d, ok := r.number(name, raw)
	if !ok {
		return
	}
	n, whole := d.Int64()
	if !whole {
		r.report(name, BadValue, "%s is not a whole number", d)
		return
	}
	if n == 0 {
		r.report(name, Placeholder, "zero: taken as unknown")
	}
	if name == "max_input_tokens" {
		r.version.MaxInputTokens = n
	} else {
		r.version.MaxOutputTokens = n
	}
}

// find returns the rate of m that is already read.
func (r *row) find(m usage.Meter, tier string, above int64) (money.Decimal, bool) {
	for _, rate := range r.version.Rates {
		if rate.Meter == m && rate.ServiceTier == tier && rate.AboveTokens == above {
			return rate.USDPerUnit, true
		}
	}
	return money.Decimal{}, false
}
