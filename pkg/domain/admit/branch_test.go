package admit

import (
	"errors"
	"testing"

	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// Of an execution's limits the root's dollars come before those of its branches, from above, and those before its calls; only
// the root's own refusals trip the breaker.
func TestBranches(t *testing.T) {
	a := Ask{Estimate: Estimate{Nanos: 10}}
	x := Execution{Root: "r", ExecutionLimits: ExecutionLimits{MaxCost: 100, MaxCalls: 5}, Branches: []Branch{{ID: "up", MaxCost: 50}, {ID: "down", MaxCost: 20}}}
	u := Usage{Day: 95, Execution: ExecutionUsage{Spent: 91, Calls: 5, Branches: []money.Nano{41, 11}}}
	for _, step := range []struct {
		code                 Code
		limit                Limit
		id                   string
		used, asked, ceiling int64
		mend                 func()
	}{
		{ExecutionBudgetExceeded, LimitMaxCost, "", 91, 10, 100, func() { u.Execution.Spent = 90 }},
		{ExecutionBudgetExceeded, LimitMaxCost, "up", 41, 10, 50, func() { u.Execution.Branches[0] = 40 }},
		{ExecutionBudgetExceeded, LimitMaxCost, "down", 11, 10, 20, func() { u.Execution.Branches[1] = 10 }},
		{ExecutionBudgetExceeded, LimitMaxCalls, "", 5, 1, 5, func() { u.Execution.Calls = 4 }},
		{TenantQuotaExceeded, LimitDay, "", 95, 10, 100, func() { u.Day = 0 }},
		{"", NoLimit, "", 0, 0, 0, func() {}},
	} {
		v := Decide(roomy(), a, x, u)
		if v.Code != step.code || v.Limit != step.limit || v.ScopeID != step.id || v.Used != step.used || v.Asked != step.asked || v.Ceiling != step.ceiling {
			t.Fatalf("%+v, want %+v", v, step)
		}
		r := Refusal{Code: v.Code, Limit: v.Limit, ScopeKind: v.ScopeKind, ScopeID: v.ScopeID}
		if (v.ScopeKind == window.Branch) != (step.id != "") || r.Trips() != (v.Code == ExecutionBudgetExceeded && step.id == "") {
			t.Errorf("%+v trips: %t", v, r.Trips())
		}
		step.mend()
	}
	for name, bad := range map[string][]Branch{"no limit": {{ID: "a"}}, "below zero": {{ID: "a", MaxCost: -1}}, "too much": {{ID: "a", MaxCost: money.MaxNano + 1}},
		"too many": make([]Branch, MaxBranches+1)} {
		if err := (Execution{Branches: bad}).Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
