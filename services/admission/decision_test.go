package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/gen/weirv1"
)

// noted is a teller whose news are kept: changes of rungs, and the rest.
type noted struct {
	teller
	changes, plain []*weirv1.Decision
}

func newNoted(sample int64) *noted {
	d := new(noted)
	d.sample, d.queue = sample, func(one *weirv1.Decision) {
		if one.GetKind() == weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED {
			d.changes = append(d.changes, one)
		} else {
			d.plain = append(d.plain, one)
		}
	}
	return d
}

func acme() caller {
	k := softPlan("10") // $4 a day, up to $4.40
	k.Ceilings.Month = 50 * 1_000_000_000
	return caller{tenant: "acme", contract: k}
}

// Goal: a refusal says what it is, on which rung, and until when; the same decision has the same id, another has another.
func TestRefusedDecision(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 1000, time.UTC)
	for _, c := range []struct {
		name   string
		r      admit.Refusal
		rung   int32
		resets string
		bill   bool
	}{
		{"rate", admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests, DayUsed: 2_000_000_000}, 1, "", false},
		{"deferred", admit.Refusal{Code: admit.ToolDeferred, DayUsed: 3_200_000_000}, 2, "", false},
		{"read-only", admit.Refusal{Code: admit.ReadOnlyMode, DayUsed: 4_000_000_000}, 3, "", false},
		{"while nothing is left of the day", admit.Refusal{Code: admit.EstimateExceedsLimit, Limit: admit.LimitMonth, DayUsed: 4_400_000_000}, 4, "", false},
		{"minute", admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitMinute, FreesAt: at.Add(9 * time.Second)}, 4, "2026-11-30T12:00:09Z", false},
		{"day", admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitDay, Window: 20261130}, 4, "2026-12-01T00:00:00Z", false},
		{"month", admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitMonth, Window: 202611}, 4, "2026-12-01T00:00:00Z", true},
		{"month of an agent", admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitMonth, Window: 202611, ScopeKind: window.Agent, ScopeID: "a", DayUsed: 1}, 0,
			"2026-12-01T00:00:00Z", false},
	} {
		c.r.At = at
		d := refusedDecision(acme(), "r1", call{Root: "x", Agent: "a"}, c.r, time.Time{})
		resets := ""
		if d.GetResetsAt() != nil {
			resets = d.GetResetsAt().AsTime().Format(time.RFC3339)
		}
		if d.GetKind() != weirv1.DecisionKind_DECISION_KIND_REFUSED || d.GetId() != fmt.Sprintf("refused:r1:%d", at.UnixNano()) || d.GetRung() != c.rung ||
			resets != c.resets || d.GetNotifyBilling() != c.bill || d.GetCode() != string(c.r.Code) || !d.GetDecidedAt().AsTime().Equal(at) || d.GetTrip() {
			t.Errorf("%s: %v", c.name, d)
		}
	}
	if d := refusedDecision(acme(), "r", call{}, admit.Refusal{Code: admit.ExecutionBudgetExceeded, Limit: admit.LimitMaxCost}, at); d.GetTrip() {
		t.Errorf("without an execution there is nothing to trip: %v", d)
	}
	child := refusedDecision(acme(), "", call{Root: "x"}, admit.Refusal{Code: admit.ExecutionDepthExceeded}, at)
	if child.GetId() != fmt.Sprintf("refused:x:%d", at.UnixNano()) || !child.GetTrip() {
		t.Errorf("%v", child)
	}
}

// Goal: billing hears of a used up month once per replica, however often it refuses; a raised ceiling that is used up again
// is news again.
func TestMonthCutIsToldOnce(t *testing.T) {
	d, c := newNoted(0), acme()
	refuse := func(month int32) {
		d.refused(c, "r", call{}, admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitMonth, Window: month, At: time.Unix(1, 0), DayUsed: 2_000_000_000}, time.Time{})
	}
	for range 5 {
		refuse(202611)
	}
	if len(d.changes) != 1 || len(d.plain) != 5 {
		t.Fatalf("%d changes, %d refusals", len(d.changes), len(d.plain))
	}
	if cut := d.changes[0]; cut.GetId() != "rung:month:202611:50000000000" || cut.GetRung() != 4 || cut.GetPreviousRung() != 1 || !cut.GetNotifyBilling() ||
		cut.GetResetsAt().AsTime().Format(time.DateOnly) != "2026-12-01" || cut.GetLimit() != "month" || cut.GetCode() != "" {
		t.Errorf("%v", cut)
	}
	c.contract.Ceilings.Month *= 2
	refuse(202611)
	refuse(202612)
	if len(d.changes) != 3 {
		t.Errorf("%v", d.changes)
	}
}

// Goal: an admission on another rung is an event with both rungs, the repeat has the same id; of all admissions one in n
// is told of, by its id alone.
func TestAdmittedDecisions(t *testing.T) {
	d, at := newNoted(100), time.Unix(5, 0)
	down := admit.Answer{ReservedAt: at, Rung: ladder.Saving, RungBefore: ladder.Caching, Reserved: admit.Estimate{Nanos: money.Nano(1)}}
	c := acme()
	d.admitted(&c, "r1", &call{Root: "x", Agent: "a"}, &down, false)
	d.admitted(&c, "r1", &call{Root: "x", Agent: "a"}, &down, true)
	if len(d.changes) != 2 || d.changes[0].GetId() != d.changes[1].GetId() || d.changes[0].GetRung() != 2 || d.changes[0].GetPreviousRung() != 1 ||
		d.changes[0].GetKind() != weirv1.DecisionKind_DECISION_KIND_RUNG_CHANGED || d.changes[0].GetNotifyBilling() {
		t.Errorf("%v", d.changes)
	}
	d.plain = nil
	const calls = 10_000
	for i := range calls {
		d.admitted(&c, fmt.Sprintf("res-%d", i), &call{}, &admit.Answer{ReservedAt: at}, false)
	}
	if n := len(d.plain); n < calls/200 || n > calls/50 || d.plain[0].GetSampleWeight() != 100 || d.plain[0].GetKind() != weirv1.DecisionKind_DECISION_KIND_ADMITTED {
		t.Errorf("%d of %d, want about one in 100; the first is %v", n, calls, d.plain[0])
	}
	for _, one := range d.plain {
		if !isSampled(one.GetReservationId(), 100) || isSampled(one.GetReservationId(), 0) || !isSampled(one.GetReservationId(), 1) {
			t.Errorf("%s", one.GetReservationId())
		}
	}
}
