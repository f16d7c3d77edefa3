package litellm

import (
	"encoding/json"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/usage"
)

// webSearch reads the price of a search by the size of its context; a search
// of unstated size is of medium size.
func (r *row) webSearch(name string, raw json.RawMessage) {
	sizes, err := object(raw, maxField)
	if err != nil {
		r.report(name, BadValue, "not an object")
		return
	}
	prices := map[string]money.Decimal{}
	for _, s := range sizes {
		switch path := name + "." + s.key; s.key {
		case "search_context_size_low", "search_context_size_medium", "search_context_size_high":
			if d, ok := r.number(path, s.value); ok {
				prices[s.key] = d
			}
		default:
			r.report(path, Unmapped, "no rule for this size")
		}
	}
	low, hasLow := prices["search_context_size_low"]
	medium, hasMedium := prices["search_context_size_medium"]
	high, hasHigh := prices["search_context_size_high"]
	if !hasMedium && (hasLow || hasHigh) {
		medium, hasMedium = dearer(low, high), true
		r.report(name, Approximated, "no price of medium size: the dearest one taken")
	}
	for _, p := range []struct {
		meter usage.Meter
		rate  money.Decimal
		has   bool
	}{{usage.WebSearchLow, low, hasLow}, {usage.WebSearch, medium, hasMedium}, {usage.WebSearchHigh, high, hasHigh}} {
		if p.has {
			r.rate(p.meter, field{}, p.rate)
		}
	}
}

func dearer(a, b money.Decimal) money.Decimal {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// entries reads a free map in which only two keys are known as factors.
func (r *row) entries(name string, raw json.RawMessage) {
	members, err := object(raw, maxField)
	if err != nil {
		r.report(name, BadValue, "not an object")
		return
	}
	for _, m := range members {
		path := name + "." + m.key
		key := map[string]string{"us": "geo:us", "eu": "geo:eu", "fast": "speed:fast"}[m.key]
		if key == "" {
			r.report(path, Unmapped, "no rule for this entry: %.40s", m.value)
			continue
		}
		if d, ok := r.number(path, m.value); ok {
			r.version.Multipliers[key] = d
		}
	}
}

// tiers reads tiered_pricing. A tier with a range in tokens gives rates above
// its lower end; the first one, from 0, is the base.
func (r *row) tiers(name string, raw json.RawMessage) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		r.report(name, BadValue, "not a list of tiers")
		return
	}
	var dearest *money.Decimal
	for _, item := range list {
		fields, err := object(item, maxField)
		if err != nil {
			r.report(name, BadValue, "a tier is not an object")
			continue
		}
		low, kind := r.rangeOf(name, fields)
		switch kind {
		case "range":
			r.tierRates(name, fields, low)
		case "max_results_range":
			dearest = r.perQuery(name, fields, dearest)
		default:
			r.report(name, Unmapped, "a tier without a range in tokens or results")
		}
	}
	if dearest != nil {
		r.report(name, Approximated, "priced by the number of results, which no meter tells: the dearest tier taken")
		r.rate(usage.SearchUnits, field{}, *dearest)
	}
}

func (r *row) rangeOf(name string, fields []entry) (low int64, kind string) {
	for _, f := range fields {
		if f.key != "range" && f.key != "max_results_range" {
			continue
		}
		var ends []money.Decimal
		if err := json.Unmarshal(f.value, &ends); err != nil || len(ends) != 2 {
			r.report(name+"."+f.key, BadValue, "not two numbers")
			return 0, ""
		}
		n, ok := ends[0].Int64() // written as 256000.0
		if !ok || n < 0 {
			r.report(name+"."+f.key, BadValue, "starts at %s", ends[0])
			return 0, ""
		}
		return n, f.key
	}
	return 0, ""
}

func (r *row) tierRates(name string, fields []entry, low int64) {
	for _, f := range fields {
		if f.key == "range" {
			continue
		}
		path := name + "." + f.key
		parts := splitField(f.key)
		m, thousand := perUnit(parts.base)
		if m == "" || thousand || parts.above > 0 {
			r.report(path, Unmapped, "no rule for this field inside a tier")
			continue
		}
		if d, ok := r.number(path, f.value); ok {
			r.rate(m, field{tier: parts.tier, above: low}, d)
		}
	}
}

func (r *row) perQuery(name string, fields []entry, dearest *money.Decimal) *money.Decimal {
	for _, f := range fields {
		switch path := name + "." + f.key; f.key {
		case "max_results_range":
		case "input_cost_per_query":
			if d, ok := r.number(path, f.value); ok && (dearest == nil || d.Cmp(*dearest) > 0) {
				dearest = &d
			}
		default:
			r.report(path, Unmapped, "no rule for this field inside a tier by results")
		}
	}
	return dearest
}
