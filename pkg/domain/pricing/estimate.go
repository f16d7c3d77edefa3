package pricing

import (
	"github.com/weir-project/weir/pkg/domain/usage"
)

// Estimate is what a call may use at most.
type Estimate struct {
	InputTokens     int64 // whole prompt, taken as uncached
	MaxOutputTokens int64 // see Version.OutputBound
	// Meters the caller expects besides. Parts of the prompt that it knows
	// (cache writes, audio) belong here and not in InputTokens.
	Meters usage.Meters
}

// EstimateCost is the price of a hold: the prompt at the tier which its whole
// length selects and all output at the dearer of text and reasoning. Errors
// are those of Cost, and usage.ErrNegative for negative counts.
func EstimateCost(v Version, e Estimate, o Options) (Costing, error) {
	if e.InputTokens < 0 || e.MaxOutputTokens < 0 {
		return Costing{}, usage.ErrNegative
	}
	plain, err := Cost(v, e.usage(usage.Output), o)
	if err != nil || e.MaxOutputTokens == 0 || !v.ratesReasoning() {
		return plain, err
	}
	thinking, err := Cost(v, e.usage(usage.Reasoning), o)
	if err == nil && thinking.Total.Cmp(plain.Total) > 0 {
		return thinking, nil
	}
	return plain, nil
}

// ratesReasoning reports whether reasoning has a rate of its own; without one it costs what text does.
func (v *Version) ratesReasoning() bool {
	for i := range v.Rates {
		if v.Rates[i].Meter == usage.Reasoning {
			return true
		}
	}
	return false
}

func (e Estimate) usage(output usage.Meter) usage.Usage {
	m := make(usage.Meters, len(e.Meters)+2)
	for name, q := range e.Meters {
		m[name] = q
	}
	m.Add(usage.Input, e.InputTokens)
	m.Add(output, e.MaxOutputTokens)
	return usage.FromMeters(m)
}
