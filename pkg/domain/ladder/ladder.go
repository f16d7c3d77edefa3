// Package ladder owns the degradation ladder (ADR 0008): which rung
// a tenant stands on, from what it has used and its ceiling.
//
// It owns the arithmetic of thresholds, exact in integers, and the names of
// the modes. It does not own what a rung does to a call (plan data) nor the
// counters themselves (pkg/budgetstore, whose script compares them with the
// amounts that Steps returns).
//
// Invariants: a rung never falls while the used amount grows; a threshold of
// p percent is reached exactly when used × 100 >= ceiling × p.
package ladder

import (
	"math/bits"

	"github.com/weir-project/weir/pkg/domain/money"
)

// Rung is a step of the ladder, 0 (everything allowed) to 4 (cut).
type Rung uint8

// The rungs.
const (
	Normal   Rung = 0 // the plan's model and tools
	Caching  Rung = 1 // use caches
	Saving   Rung = 2 // a cheaper model; side effects wait
	ReadOnly Rung = 3 // search, do not send, do not pay
	Cut      Rung = 4 // minute or month exhausted: the provider is not called
)

// Thresholds are the percentages of the day ceiling at which rungs 1, 2 and 3
// begin, rising; equal ones skip a rung.
type Thresholds [3]int32

// Default are the thresholds of a plan that states none: 50, 80 and 100 %.
func Default() Thresholds { return Thresholds{50, 80, 100} }

// Steps returns for each threshold the smallest used amount that reaches it.
// A threshold beyond money.MaxNano is clamped there.
func Steps(ceiling money.Nano, t Thresholds) [3]money.Nano {
	var steps [3]money.Nano
	for i, p := range t {
		steps[i] = percentOf(ceiling, p)
	}
	return steps
}

// percentOf is ceil(ceiling × p / 100), computed in 128 bits.
func percentOf(ceiling money.Nano, p int32) money.Nano {
	if ceiling <= 0 || p <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(ceiling), uint64(p))
	lo, carry := bits.Add64(lo, 99, 0)
	hi += carry
	if hi >= 100 {
		return money.MaxNano
	}
	quotient, _ := bits.Div64(hi, lo, 100)
	return money.Nano(min(quotient, uint64(money.MaxNano)))
}

// At returns the rung for an amount used, 0 to 3: the number of thresholds it
// has reached. Rung 4 is not a share of the day; it belongs to a refusal.
func At(used, ceiling money.Nano, t Thresholds) Rung {
	var r Rung
	for _, step := range Steps(ceiling, t) {
		if used >= step {
			r++
		}
	}
	return r
}

// Percent is floor(100 × used / ceiling), at least 0; a ceiling of zero is
// 100 % used. It may exceed 100 after an overrun.
func Percent(used, ceiling money.Nano) int64 {
	if ceiling <= 0 {
		return 100
	}
	if used <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(used), 100)
	if hi >= uint64(ceiling) {
		return int64(money.MaxNano)
	}
	quotient, _ := bits.Div64(hi, lo, uint64(ceiling))
	return int64(min(quotient, uint64(money.MaxNano)))
}

// Mode is the name of the mode a rung puts the tenant in, as answers show it.
func (r Rung) Mode() string {
	switch r {
	case Normal:
		return "normal"
	case Caching:
		return "caching"
	case Saving:
		return "saving"
	case ReadOnly:
		return "read_only"
	default:
		return "cut"
	}
}
