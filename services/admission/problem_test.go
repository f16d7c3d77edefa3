package admission

import (
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
	"github.com/weir-project/weir/pkg/domain/tenant"
	"github.com/weir-project/weir/pkg/identity"
)

// Goal: every code is answered as design.md 4.6 has it: status, and Retry-After exactly where a retry makes sense.
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
		{storeProblem(errEpochUnknown), "budget_store_unavailable", 503, true},
		{storeProblem(admit.ErrInvalid), "invalid_argument", 400, false},
		{storeProblem(fmt.Errorf("wrapped: %w", problem(admit.UnknownPrice, ""))), "unknown_price", 422, false},
		{problem(admit.ReservationConflict, ""), "reservation_conflict", 409, false},
		{problem(admit.ReservationNotFound, ""), "reservation_not_found", 404, false},
		{problem(codeExecutionNotFound, ""), "execution_not_found", 404, false},
		{problem(codeNotFound, ""), "not_found", 404, false},
		{problem(codeMethod, ""), "method_not_allowed", 405, false},
		{problem(codeTooLarge, ""), "body_too_large", 413, false},
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

func plan() tenant.Contract {
	return tenant.Contract{Ceilings: tenant.Ceilings{Day: 4_000_000_000}, Ladder: tenant.DefaultLadder()}
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
	hard := refused(admit.Refusal{Code: admit.TenantQuotaExceeded, Limit: admit.LimitDay, At: at, Window: 20261130, Used: 3_600_000_000, Asked: 500_000_000,
		Ceiling: 4_000_000_000, DayUsed: 3_600_000_000}, caller{contract: plan()}, time.UTC)
	if !strings.HasPrefix(hard.Message, "This call does not fit what is left of today's budget. 90 %") {
		t.Errorf("a hard day with something left: %s", hard.Message)
	}
	rate := refused(admit.Refusal{Code: admit.RateLimited, Limit: admit.LimitRequests, At: at, FreesAt: at.Add(10 * time.Second), Used: 60, Asked: 1, Ceiling: 60}, caller{contract: plan()}, time.UTC)
	if rate.RetryAfterMS < 10_000 || rate.RetryAfterMS > 20_000 || rate.Window != "" || rate.Limit != admit.LimitRequests || rate.ResetsAt != "" {
		t.Errorf("%+v", rate)
	}
}
