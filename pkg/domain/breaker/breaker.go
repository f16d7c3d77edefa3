package breaker

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

// Reason is the threshold that was passed: the reason of a revocation and the error code of a termination.
type Reason string

// The reasons. Admission is a refusal at the door, for whichever of the limits.
const (
	Cost      Reason = "cost"
	Calls     Reason = "calls"
	Depth     Reason = "depth"
	Admission Reason = "admission"
)

// MaxParents is how many agents of one execution have their fan-out counted; the calls of any further ones are not. It
// bounds a metric, no decision.
const MaxParents = 64

// Signal is one thing that happened to an execution.
type Signal struct {
	// At is when it was recorded; it becomes the time of the trip.
	At time.Time
	// Cost is the signed amount that counts, own and external together.
	Cost money.Nano
	// Calls is +1 for a call, -1 for what reverses one, 0 for what is none.
	Calls int64
	// Depth is that of the calling agent, 0 for the root's own.
	Depth int32
	// Parent is the agent under which the caller works; "" is nobody, whose fan-out is not counted.
	Parent string
	// Refusal is not nil when admission refused the execution.
	Refusal *Refusal
}

// Refusal is admission's answer to a call that would have passed a limit of its execution.
type Refusal struct {
	// Code is the problem code of the answer, Limit the limit that it names.
	Code, Limit string
}

// FanOut is the number of calls made under one agent.
type FanOut struct {
	Parent string
	Calls  int64
}

// State is what one root execution has done, all its descendants included. The zero State has done nothing.
type State struct {
	Cost     money.Nano
	Calls    int64
	MaxDepth int32
	// FanOut is sorted by parent; at most MaxParents.
	FanOut []FanOut
	// Tripped is why the execution was ended, "" while it was not.
	Tripped Reason
}

// Trip ends an execution.
type Trip struct {
	Reason Reason
	// Observed and Threshold are dollars for Cost, counts for Calls and Depth; for Admission, its code and its limit.
	Observed, Threshold string
	At                  time.Time
}

// Step applies a signal. The returned state shares nothing with s that either of them changes. The trip is nil unless
// this signal is the first that passes a limit, or the first refusal.
func Step(s State, sig Signal, limits tenant.Execution) (State, *Trip) {
	s.Cost = money.Nano(sum(int64(s.Cost), int64(sig.Cost)))
	s.Calls = sum(s.Calls, sig.Calls)
	s.MaxDepth = max(s.MaxDepth, sig.Depth)
	if sig.Parent != "" && sig.Calls != 0 {
		s.FanOut = count(s.FanOut, sig.Parent, sig.Calls)
	}
	if s.Tripped != "" {
		return s, nil
	}
	trip := judge(s, sig, limits)
	if trip != nil {
		trip.At, s.Tripped = sig.At, trip.Reason
	}
	return s, trip
}

// judge names one limit when several are passed: what costs money first.
func judge(s State, sig Signal, limits tenant.Execution) *Trip {
	switch {
	case limits.MaxCost > 0 && s.Cost > limits.MaxCost:
		return &Trip{Reason: Cost, Observed: s.Cost.USD().String(), Threshold: limits.MaxCost.USD().String()}
	case limits.MaxCalls > 0 && s.Calls > limits.MaxCalls:
		return &Trip{Reason: Calls, Observed: strconv.FormatInt(s.Calls, 10), Threshold: strconv.FormatInt(limits.MaxCalls, 10)}
	case limits.MaxDepth > 0 && s.MaxDepth > limits.MaxDepth:
		return &Trip{Reason: Depth, Observed: strconv.Itoa(int(s.MaxDepth)), Threshold: strconv.Itoa(int(limits.MaxDepth))}
	case sig.Refusal != nil:
		return &Trip{Reason: Admission, Observed: sig.Refusal.Code, Threshold: sig.Refusal.Limit}
	}
	return nil
}

// Widest is the largest fan-out counted, 0 without any.
func (s State) Widest() int64 {
	var widest int64
	for _, f := range s.FanOut {
		widest = max(widest, f.Calls)
	}
	return widest
}

// count returns a copy of all with calls added to a parent's.
func count(all []FanOut, parent string, calls int64) []FanOut {
	at, found := slices.BinarySearchFunc(all, parent, func(f FanOut, p string) int { return strings.Compare(f.Parent, p) })
	switch {
	case found:
		all = slices.Clone(all)
		all[at].Calls = sum(all[at].Calls, calls)
		return all
	case len(all) == MaxParents:
		return all
	}
	return slices.Insert(slices.Clone(all), at, FanOut{parent, calls})
}

// sum stays at the border of an int64, nine billion dollars in nano-dollars: by then every limit has tripped.
func sum(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
