package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/domain/window"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/services/admission/epoch"
)

// Goal: every code is answered as codeTable has it: status, and Retry-After exactly where a retry makes sense.
func TestEveryCode(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	refusal := func(code admit.Code, limit admit.Limit) *Problem {
		return refused(admit.Refusal{Code: code, Limit: limit, At: at, FreesAt: at.Add(10 * time.Second), Used: 2_000_000_000, Asked: 1, Ceiling: 2_000_000_000},
			caller{contract: plan()}, time.UTC)
	}
	for _, c := range []struct {
		p      *Problem
		code   admit.Code
		status int
		retry  bool
	}{
		{refusal(admit.RateLimited, admit.LimitRequests), "rate_limited", 429, true},
		{refusal(admit.RateLimited, admit.LimitConcurrency), "rate_limited", 429, true},
		{refusal(admit.TenantQuotaExceeded, admit.LimitMinute), "tenant_quota_exceeded", 429, false},
		{refusal(admit.TenantQuotaExceeded, admit.LimitDay), "tenant_quota_exceeded", 429, false},
		{refusal(admit.EstimateExceedsLimit, admit.LimitMinute), "estimate_exceeds_limit", 422, false},
		{refusal(admit.ExecutionBudgetExceeded, admit.LimitMaxCost), "execution_budget_exceeded", 403, false},
		{refusal(admit.ExecutionBudgetExceeded, admit.LimitMaxCalls), "execution_budget_exceeded", 403, false},
		{refusal(admit.ExecutionDepthExceeded, admit.LimitMaxDepth), "execution_depth_exceeded", 403, false},
		{refusal(admit.ExecutionRevoked, admit.NoLimit), "execution_revoked", 403, false},
		{identityProblem(identity.ErrDepthExceeded), "execution_depth_exceeded", 403, false},
		{identityProblem(identity.ErrUnauthenticated), "unauthenticated", 401, false},
		{identityProblem(identity.ErrForbiddenTenant), "forbidden_tenant", 403, false},
		{identityProblem(identity.ErrUnavailable), "budget_store_unavailable", 503, true},
		{identityProblem(errors.New("anything else")), "budget_store_unavailable", 503, true},
		{storeProblem(budgetstore.ErrUnavailable), "budget_store_unavailable", 503, true},
		{storeProblem(budgetstore.ErrClockSkew), "budget_store_unavailable", 503, true},
		{storeProblem(fmt.Errorf("pgstore: %w", errors.New("connection refused"))), "budget_store_unavailable", 503, true},
		{storeProblem(fmt.Errorf("x: %w", budgetstore.ErrLost)), "budget_store_recovering", 503, true},
		{storeProblem(budgetstore.ErrNotReady), "budget_store_recovering", 503, true},
		{storeProblem(budgetstore.ErrEpoch), "budget_store_recovering", 503, true},
		{storeProblem(budgetstore.ErrNoEpoch), "budget_store_recovering", 503, true},
		{storeProblem(epoch.ErrUnknown), "budget_store_unavailable", 503, true},
		{storeProblem(admit.Limits{Concurrency: admit.Unlimited + 1}.Validate()), "internal_error", 500, false},
		{storeProblem(admit.ErrInvalid), "invalid_argument", 400, false},
		{storeProblem(fmt.Errorf("wrapped: %w", problem(admit.UnknownPrice, ""))), "unknown_price", 422, false},
		{problem(admit.ReservationConflict, ""), "reservation_conflict", 409, false},
		{problem(admit.ReservationNotFound, ""), "reservation_not_found", 404, false},
		{problem(codeExecutionNotFound, ""), "execution_not_found", 404, false},
		{problem(codeNotFound, ""), "not_found", 404, false},
		{problem(codeMethod, ""), "method_not_allowed", 405, false},
		{problem(codeTooLarge, ""), "body_too_large", 413, false},
		{problem(codeEncoded, ""), "body_encoded", 415, false},
		{problem(codeInternal, ""), "internal_error", 500, false},
		{invalid("x", "y"), "invalid_argument", 400, false},
	} {
		w := httptest.NewRecorder()
		c.p.write(w)
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || body["code"] != string(c.code) || body["title"] == "" || body["type"] != "urn:weir:problem:"+string(c.code) ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", c.code, w.Code, w.Body)
		}
		after := w.Header().Get("Retry-After")
		if (after != "") != c.retry {
			t.Errorf("%s: Retry-After %q", c.code, after)
		}
		if n, _ := strconv.Atoi(after); c.retry && n < 1 {
			t.Errorf("%s: Retry-After %q is not a whole second or more", c.code, after)
		}
		if (c.status == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate", c.code)
		}
	}
}

func plan() *tenant.Contract {
	return &tenant.Contract{Ceilings: tenant.Ceilings{Day: 4_000_000_000}, Ladder: tenant.DefaultLadder()}
}

// softPlan has a soft day that may be overrun by so many percent.
func softPlan(overrun string) *tenant.Contract {
	k := plan()
	k.SoftDay = true
	k.Overrun, _ = money.ParsePercent(overrun)
	return k
}

// Goal: a quota is told apart from a rate on the wire (I9), and names its window and its end.
func TestQuotaIsNotARate(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	quota := refused(admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitMonth, At: at, FreesAt: time.Time{}, Window: 202611, Used: 5_000_000_000,
		Asked: 300_000_000, Ceiling: 5_000_000_000, DayUsed: 1_000_000_000}, caller{contract: plan()}, time.UTC)
	body, err := json.Marshal(quota)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"urn:weir:problem:tenant_quota_exceeded","title":"The budget is used up; do not retry","status":429,"code":"tenant_quota_exceeded",` +
		`"detail":"month: 5 USD used and held, 0.3 USD asked, 5 USD allowed.","window":"month","resets_at":"2026-12-01T00:00:00Z",` +
		`"used":"5","asked":"0.3","ceiling":"5","rung":4,"percent_used":25,"message":"This month's budget is used up. 25 % of today's budget is used; the steps are at 50, 80 and 100 %."}`
	if string(body) != want {
		t.Errorf("%s\nwant\n%s", body, want)
	}
	rate := refused(admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests, At: at, FreesAt: at.Add(10 * time.Second), Used: 60, Asked: 1, Ceiling: 60}, caller{contract: plan()}, time.UTC)
	if rate.RetryAfterMS < 10_000 || rate.RetryAfterMS > 20_000 || rate.Window != "" || rate.Limit != admit.LimitRequests || rate.ResetsAt != "" {
		t.Errorf("%+v", rate)
	}
}

// Goal: the text for the end user says of each window whether it is used up or the call is too large for what is left, whose
// it is, and counts a soft day by its ceiling, not by how far it may be passed.
func TestWhatIsLeftIsTold(t *testing.T) {
	soft := plan()
	soft.SoftDay = true
	*soft = soft.WithScope(tenant.Scope{Scope: window.Scope{Kind: window.Agent, ID: tenant.EachScope}, Ceilings: tenant.Ceilings{Day: 1_000_000_000}})
	own, agent := window.Scope{}, window.Scope{Kind: window.Agent, ID: "a1"}
	for _, c := range []struct {
		k             *tenant.Contract
		scope         window.Scope
		limit         admit.Limit
		used, ceiling money.Nano
		says          string
	}{
		{plan(), own, admit.LimitMinute, 90, 100, "This call does not fit what is left of this minute's budget; it frees by itself within a minute."},
		{plan(), own, admit.LimitMinute, 100, 100, "This minute's budget is used up;"},
		{plan(), own, admit.LimitDay, 3_600_000_000, 4_000_000_000, "This call does not fit what is left of today's budget."},
		{plan(), own, admit.LimitDay, 4_000_000_000, 4_000_000_000, "Today's budget is used up."},
		{plan(), own, admit.LimitMonth, 99, 100, "This call does not fit what is left of this month's budget."},
		{plan(), own, admit.LimitMonth, 101, 100, "This month's budget is used up."},
		{soft, own, admit.LimitDay, 3_999_999_999, 4_400_000_000, "This call does not fit what is left of today's budget."},
		{soft, own, admit.LimitDay, 4_000_000_000, 4_400_000_000, "Today's budget is used up."},
		{soft, agent, admit.LimitDay, 999_999_999, 1_100_000_000, "This call does not fit what is left of the budget of agent a1 for today."},
		{soft, agent, admit.LimitDay, 1_000_000_000, 1_100_000_000, "The budget of agent a1 for today is used up."},
		{soft, agent, admit.LimitMonth, 99, 100, "This call does not fit what is left of the budget of agent a1 for this month."},
	} {
		r := admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: c.limit, Used: int64(c.used), Asked: 5_000_000_000, Ceiling: int64(c.ceiling), ScopeKind: c.scope.Kind, ScopeID: c.scope.ID}
		if p := refused(r, caller{contract: c.k}, time.UTC); !strings.HasPrefix(p.Message, c.says) {
			t.Errorf("%s of %s at %d: %q, want %q", c.limit, c.scope, c.used, p.Message, c.says)
		}
		p := refused(r, caller{contract: c.k, language: "es"}, time.UTC)
		if fits := !strings.Contains(c.says, "fit"); strings.HasPrefix(p.Message, "Esta llamada no cabe en lo que queda") == fits {
			t.Errorf("%s of %s at %d: %q", c.limit, c.scope, c.used, p.Message)
		}
	}
}

// Goal: the detail of a store that decides nothing claims no more than is known of it.
func TestWhyAway(t *testing.T) {
	for want, err := range map[string]error{
		"The budget store answers, but decides nothing: it is a read-only replica.":             fmt.Errorf("inspect: %w", budgetstore.ErrReplica),
		"A store that is needed to decide did not answer in time.":                              fmt.Errorf("%w: reserve: %w", budgetstore.ErrUnavailable, context.DeadlineExceeded),
		"A store that is needed to decide is away, or cannot be used by this replica.":          fmt.Errorf("%w: %w", budgetstore.ErrUnavailable, errors.New("connection refused")),
		"The clocks of this service and of the budget store differ by more than 2 s.":           fmt.Errorf("reserve: %w", budgetstore.ErrClockSkew),
		"The budget store has lost its counters; nothing is admitted until they are recovered.": budgetstore.ErrReplaced,
	} {
		if got := storeProblem(err).Detail; got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
