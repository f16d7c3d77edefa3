package admit

import (
	"errors"
	"testing"

	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
)

// From rung 2 on the cheaper estimate is what counts: it may fit where the other would not.
func TestRungPicksThePrice(t *testing.T) {
	saving := Estimate{Nanos: 5, InputTokens: 1, OutputTokens: 1}
	a := Ask{Estimate: Estimate{Nanos: 50, InputTokens: 1, OutputTokens: 1}, Saving: &saving}
	for _, c := range []struct {
		day    money.Nano
		rung   ladder.Rung
		saving bool
		code   Code
	}{
		{0, 0, false, ""}, {49, 0, false, ""}, {50, 1, false, ""}, {51, 1, false, TenantQuotaExceeded}, {80, 2, true, ""}, {95, 2, true, ""},
		{96, 2, true, TenantQuotaExceeded}, {100, 3, true, TenantQuotaExceeded},
	} {
		v := Decide(roomy(), a, Execution{}, Usage{Day: c.day})
		want := c.rung
		if c.code == TenantQuotaExceeded {
			want = ladder.Cut
		}
		if v.Rung != want || v.Saving != c.saving || v.Code != c.code || (v.Estimate == saving) != c.saving {
			t.Errorf("%d used: %+v", c.day, v)
		}
	}
}

// A sub-scope's limit refuses after the tenant's, by its name, and does not cut the tenant.
func TestScopes(t *testing.T) {
	a := Ask{Estimate: Estimate{Nanos: 10}, Scopes: []ScopeLimit{
		{Kind: window.CostCenter, ID: "rd", Minute: NoCeiling(), Day: Hard(40), Month: Hard(40)},
		{Kind: window.Agent, ID: "a7", Minute: Hard(20), Day: Hard(20), Month: NoCeiling()}}}
	u := Usage{Day: 91, Scopes: []ScopeUsage{{Day: 31, Month: 31}, {Minute: 15, Day: 10}}}
	for _, step := range []struct {
		code  Code
		limit Limit
		id    string
		mend  func()
	}{
		{TenantQuotaExceeded, LimitDay, "", func() { u.Day = 10 }},
		{TenantQuotaExceeded, LimitMonth, "rd", func() { u.Scopes[0].Month = 30 }},
		{TenantQuotaExceeded, LimitDay, "rd", func() { u.Scopes[0].Day = 30 }},
		{TenantQuotaExceeded, LimitMinute, "a7", func() { u.Scopes[1].Minute = 10 }},
		{"", NoLimit, "", func() { a.Estimate.Nanos = 21 }},
		{EstimateExceedsLimit, LimitDay, "a7", func() { a.Estimate.Nanos = 10 }},
	} {
		v := Decide(roomy(), a, Execution{}, u)
		if v.Code != step.code || v.Limit != step.limit || v.ScopeID != step.id {
			t.Fatalf("%+v, want %+v", v, step)
		}
		if (v.Rung == ladder.Cut) != (v.Code == TenantQuotaExceeded && step.id == "") {
			t.Errorf("rung %d with %s of %q", v.Rung, v.Code, step.id)
		}
		step.mend()
	}
}

func TestAskIsChecked(t *testing.T) {
	good := ScopeLimit{Kind: window.Agent, ID: "a", Minute: NoCeiling(), Day: NoCeiling(), Month: NoCeiling()}
	if err := (Ask{Scopes: []ScopeLimit{good}}).Validate(); err != nil {
		t.Error(err)
	}
	bad := good
	bad.Kind = "team"
	high := good
	high.Day.Cap = money.MaxNano + 1
	for name, a := range map[string]Ask{
		"saving": {Saving: &Estimate{Nanos: -1}}, "effect": {Effect: Write + 1}, "kind": {Scopes: []ScopeLimit{bad}}, "cap": {Scopes: []ScopeLimit{high}},
		"twice": {Scopes: []ScopeLimit{good, good}}, "many": {Scopes: make([]ScopeLimit, MaxScopes+1)}, "estimate": {Estimate: Estimate{InputTokens: -1}},
	} {
		if err := a.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
