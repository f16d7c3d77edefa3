package breaker

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
)

func TestStep(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 30, 0, 0, time.UTC)
	limits := tenant.Execution{MaxCost: 5_000_000_000, MaxCalls: 3, MaxDepth: 2}
	refused := &Refusal{Code: "execution_budget_exceeded", Limit: "max_cost_usd"}
	for _, c := range []struct {
		name   string
		state  State
		signal Signal
		limits tenant.Execution
		want   *Trip
	}{
		{"below", State{}, Signal{Cost: 1, Calls: 1}, limits, nil},
		{"cost reached", State{Cost: 4_999_999_999}, Signal{Cost: 1}, limits, nil},
		{"cost passed by a nano-dollar", State{Cost: 5_000_000_000}, Signal{Cost: 1}, limits, &Trip{Cost, "5.000000001", "5", at}},
		{"calls reached", State{Calls: 2}, Signal{Calls: 1}, limits, nil},
		{"calls passed", State{Calls: 3}, Signal{Calls: 1}, limits, &Trip{Calls, "4", "3", at}},
		{"depth reached", State{}, Signal{Depth: 2}, limits, nil},
		{"depth passed", State{}, Signal{Depth: 3}, limits, &Trip{Depth, "3", "2", at}},
		{"all passed: cost is named", State{}, Signal{Cost: 6_000_000_000, Calls: 9, Depth: 9}, limits, &Trip{Cost, "6", "5", at}},
		{"no limits", State{}, Signal{Cost: money.MaxNano, Calls: 1 << 40, Depth: 1 << 20}, tenant.Execution{}, nil},
		{"refused at the door", State{}, Signal{Refusal: refused}, tenant.Execution{}, &Trip{Admission, refused.Code, refused.Limit, at}},
		{"reversal before the actual figure", State{Cost: 5_000_000_000, Calls: 3}, Signal{Cost: -5_000_000_000, Calls: -1}, limits, nil},
		{"tripped before", State{Tripped: Depth}, Signal{Cost: 6_000_000_000, Refusal: refused}, limits, nil},
		{"sum stays at its border", State{Cost: math.MaxInt64 - 1, Tripped: Cost}, Signal{Cost: 5}, limits, nil},
	} {
		c.signal.At = at
		next, got := Step(c.state, c.signal, c.limits)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if (next.Tripped != "") != (c.want != nil || c.state.Tripped != "") || next.Cost < c.state.Cost && c.signal.Cost > 0 {
			t.Errorf("%s: %+v", c.name, next)
		}
	}
}

func TestFanOutIsBounded(t *testing.T) {
	var s State
	for i := range 2 * MaxParents {
		before := s
		kept := slices.Clone(before.FanOut)
		s, _ = Step(s, Signal{Calls: 1, Parent: fmt.Sprintf("agent-%03d", (i*7)%(2*MaxParents))}, tenant.Execution{})
		if !slices.Equal(before.FanOut, kept) {
			t.Fatalf("step %d changed the state it was given", i)
		}
	}
	if len(s.FanOut) != MaxParents || s.Calls != 2*MaxParents || s.Widest() != 1 {
		t.Errorf("%d parents, %d calls, widest %d", len(s.FanOut), s.Calls, s.Widest())
	}
	s, _ = Step(s, Signal{Calls: 1, Parent: s.FanOut[3].Parent}, tenant.Execution{})
	if s.Widest() != 2 {
		t.Errorf("widest %d", s.Widest())
	}
}

func someSignals(t *rapid.T) []Signal {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Signal {
		s := Signal{
			At:     time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "at"), 0),
			Cost:   money.Nano(rapid.Int64Range(-1000, 5000).Draw(t, "cost")),
			Calls:  rapid.SampledFrom([]int64{-1, 0, 1, 1, 1}).Draw(t, "calls"),
			Depth:  rapid.Int32Range(0, 6).Draw(t, "depth"),
			Parent: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "parent"),
		}
		if rapid.IntRange(0, 19).Draw(t, "refused") == 0 {
			s.Refusal = &Refusal{Code: "execution_depth_exceeded", Limit: "max_depth"}
		}
		return s
	}), 0, 40).Draw(t, "signals")
}

func someLimits(t *rapid.T) tenant.Execution {
	return tenant.Execution{
		MaxCost:  money.Nano(rapid.SampledFrom([]int64{0, 1, 3000, 20000, 1 << 40}).Draw(t, "max cost")),
		MaxCalls: rapid.SampledFrom([]int64{0, 1, 5, 1 << 40}).Draw(t, "max calls"),
		MaxDepth: rapid.SampledFrom([]int32{0, 1, 4, 6}).Draw(t, "max depth"),
	}
}

func fold(signals []Signal, limits tenant.Execution) (s State, trips []Trip) {
	for _, sig := range signals {
		var trip *Trip
		if s, trip = Step(s, sig, limits); trip != nil {
			trips = append(trips, *trip)
		}
	}
	return s, trips
}

// Totals do not depend on the order of the signals, nor on whether the execution had tripped.
func TestTotalsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signals, limits := someSignals(t), someLimits(t)
		a, _ := fold(signals, limits)
		b, _ := fold(rapid.Permutation(signals).Draw(t, "order"), tenant.Execution{})
		if a.Cost != b.Cost || a.Calls != b.Calls || a.MaxDepth != b.MaxDepth || !slices.Equal(a.FanOut, b.FanOut) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

// An execution trips exactly once, at the first signal after which the plain sums pass a limit or which is a refusal.
func TestTripsExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signals, limits := someSignals(t), someLimits(t)
		first := -1
		var cost, calls int64
		var depth int32
		for i, s := range signals {
			cost, calls, depth = cost+int64(s.Cost), calls+s.Calls, max(depth, s.Depth)
			over := limits.MaxCost > 0 && cost > int64(limits.MaxCost) || limits.MaxCalls > 0 && calls > limits.MaxCalls ||
				limits.MaxDepth > 0 && depth > limits.MaxDepth || s.Refusal != nil
			if over {
				first = i
				break
			}
		}
		state, trips := fold(signals, limits)
		switch {
		case first < 0 && (len(trips) != 0 || state.Tripped != ""):
			t.Fatalf("tripped without cause: %+v", trips)
		case first >= 0 && (len(trips) != 1 || !trips[0].At.Equal(signals[first].At) || state.Tripped != trips[0].Reason):
			t.Fatalf("signal %d passes a limit, trips %+v", first, trips)
		}
	})
}

// What is booked and reversed leaves no trace in cost, calls and fan-out.
func TestReversalTakesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signals := someSignals(t)
		var all []Signal
		for _, s := range signals {
			s.Refusal = nil
			all = append(all, s)
			s.Cost, s.Calls = -s.Cost, -s.Calls
			all = append(all, s)
		}
		s, _ := fold(all, tenant.Execution{})
		if s.Cost != 0 || s.Calls != 0 || s.Widest() != 0 {
			t.Fatalf("%+v", s)
		}
	})
}
