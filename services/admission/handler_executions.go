package admission

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/pgstore"
)

// begin gives an execution token, of a root or of a child: POST /v1/executions. It starts, resumes or continues an
// execution, whoever asked in whatever form.
func (s *Service) begin(ctx context.Context, c caller, req executionRequest) (answer, error) {
	maxCost, p := costLimit(req.MaxCostUSD)
	if p = first(p, req.check()); p != nil {
		return answer{}, p
	}
	maxDepth := 0
	if req.MaxDepth != nil {
		maxDepth = *req.MaxDepth
	}

	if p := s.killed(c.tenant, "", ""); p != nil {
		return answer{}, p
	}

	// load, decide, save
	var x identity.Execution
	var err error
	if req.ParentToken != "" {
		x, err = s.child(ctx, c, req, maxCost, maxDepth)
	} else {
		x, err = s.root(ctx, c, req, maxCost, maxDepth)
	}
	if err != nil {
		return answer{}, err
	}

	// emit
	token, err := s.cfg.TokenKey.SignExecutionToken(x, s.deps.Now())
	if err != nil {
		return answer{}, problem(codeInternal, err.Error())
	}
	return answer{status: http.StatusCreated, body: started(x, token)}, nil
}

func started(x identity.Execution, token string) executionAnswer {
	out := executionAnswer{RootExecutionID: x.Root, AgentID: x.Agent, Depth: x.Depth, MaxDepth: x.MaxDepth, Token: token, ExpiresAt: clock(x.ExpiresAt)}
	if x.MaxCost > 0 {
		usd := x.MaxCost.USD()
		out.MaxCostUSD = &usd
	}
	if n := len(x.Branches); n > 0 {
		out.BranchID = x.Branches[n-1].ID
	}
	return out
}

// maxMaxDepth bounds the max_depth of a request.
const maxMaxDepth = 1 << 20

func (req executionRequest) check() *Problem {
	if p := first(checkOptionalID("root_execution_id", req.RootExecutionID), checkID("agent_id", req.AgentID),
		checkOptionalID("cost_center", req.CostCenter)); p != nil {
		return p
	}
	if req.MaxDepth != nil && (*req.MaxDepth < 1 || *req.MaxDepth > maxMaxDepth) {
		return invalid("max_depth", fmt.Sprintf("max_depth is not from 1 to %d.", maxMaxDepth))
	}
	return nil
}

// child is an agent started by the holder of a token. Its root must still run; its limits can only be stricter.
func (s *Service) child(ctx context.Context, c caller, req executionRequest, maxCost money.Nano, maxDepth int) (identity.Execution, error) {
	parent, err := s.execution(c.tenant, string(req.ParentToken), s.deps.Now())
	if err != nil {
		return identity.Execution{}, err
	}
	if req.RootExecutionID != "" && req.RootExecutionID != parent.Root {
		return identity.Execution{}, invalid("root_execution_id", "root_execution_id is not that of parent_token.")
	}
	branch, err := newBranch(s.deps.Random)
	if err != nil {
		return identity.Execution{}, problem(codeInternal, err.Error())
	}
	x, err := parent.Child(req.AgentID, req.CostCenter, maxDepth, maxCost, branch, s.tokenEnd())
	if errors.Is(err, identity.ErrTooManyLimits) {
		return identity.Execution{}, invalid("max_cost_usd", err.Error()+"; start it without a lower one.")
	}
	if errors.Is(err, identity.ErrDepthExceeded) {
		s.decisions.refused(c, "", call{Root: parent.Root, Agent: req.AgentID},
			admit.Refusal{Code: admit.ExecutionDepthExceeded, Limit: admit.LimitMaxDepth}, s.deps.Now())
		return identity.Execution{}, identityProblem(err)
	}
	if err != nil {
		return identity.Execution{}, err
	}
	t, err := s.of(c.tenant)
	if err != nil {
		return identity.Execution{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return x, s.startBranch(ctx, t, parent, x)
}

// root starts or resumes a root execution. Its limits are stored in Postgres, where they only fall, and then in Redis,
// which enforces them. Where Redis has no room for one more, Postgres does not hear of it: a row would stay for weeks, and the
// execution's age be counted from it. Only who loses the last place to another start just then leaves one.
func (s *Service) root(ctx context.Context, c caller, req executionRequest, maxCost money.Nano, maxDepth int) (identity.Execution, error) {
	id := req.RootExecutionID
	if id == "" {
		var err error
		if id, err = newRoot(s.deps.Random); err != nil {
			return identity.Execution{}, problem(codeInternal, err.Error())
		}
	}
	limits := executionLimits(c.contract, maxCost, maxDepth)
	t, err := s.of(c.tenant)
	if err != nil {
		return identity.Execution{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.onTenant(ctx, t, func() error { return roomFor(s.counters.RoomFor(ctx, t, id)) }); err != nil {
		return identity.Execution{}, err
	}
	stored, err := s.rows.StartExecution(ctx, pgstore.Execution{Tenant: c.tenant, Root: id, Agent: req.AgentID, CostCenter: req.CostCenter,
		MaxCost: limits.MaxCost, MaxDepth: int(limits.MaxDepth)})
	if err != nil {
		return identity.Execution{}, err
	}
	end := stored.CreatedAt.Add(maxRootAge)
	if !s.deps.Now().Before(end) {
		return identity.Execution{}, problem(admit.ExecutionRevoked, fmt.Sprintf("The execution is older than %s; start a new one.", maxRootAge))
	}
	limits.MaxCost, limits.MaxDepth = stored.MaxCost, int64(stored.MaxDepth)
	var known budgetstore.ExecutionState
	err = s.onTenant(ctx, t, func() (err error) {
		known, err = s.counters.StartExecution(ctx, t, id, limits)
		return roomFor(err)
	})
	if err == nil {
		err = notRevoked(known)
	}
	if err != nil {
		return identity.Execution{}, err
	}
	return identity.Execution{Tenant: c.tenant, Root: id, Agent: req.AgentID, CostCenter: req.CostCenter, MaxDepth: int(known.Limits.MaxDepth),
		MaxCost: known.Limits.MaxCost, ExpiresAt: earlier(s.tokenEnd(), end)}, nil
}

// limitExecutions names the bound of executions in its 429.
const limitExecutions admit.Limit = "executions"

// roomFor makes of ErrExecutions the answer: there is room again when others are older than a root may be, so the caller is told
// to wait longest.
func roomFor(err error) error {
	if !errors.Is(err, budgetstore.ErrExecutions) {
		return err
	}
	p := problem(admit.RateLimited, fmt.Sprintf("%d executions were started within a week, which is as many as a tenant may have; those that run go on. "+
		"Start this one later, or an agent of one that runs (parent_token).", budgetstore.MaxExecutions))
	p.Limit, p.Ceiling, p.RetryAfterMS = limitExecutions, int64(budgetstore.MaxExecutions), jitter(maxRetryAfter).Milliseconds()
	return p
}

func notRevoked(x budgetstore.ExecutionState) error {
	if x.Revoked {
		return problem(admit.ExecutionRevoked, "The execution was ended, with all its descendants.")
	}
	return nil
}

func (s *Service) tokenEnd() time.Time { return s.deps.Now().Add(s.cfg.TokenTTL).Truncate(time.Second) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func newRoot(random io.Reader) (string, error) {
	raw := make([]byte, 12)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("admission: randomness for an execution id: %w", err)
	}
	return "x_" + hex.EncodeToString(raw), nil
}

// closeExecution marks a root as done, so that it counts as open no longer: POST /v1/executions/{root}/close. It does not
// end its tokens (revocation does, which is the breaker's); a further reservation opens it again.
func (s *Service) closeExecution(ctx context.Context, c caller, root string, _ closeRequest) (answer, error) {
	if p := checkShape("root", root); p != nil {
		return answer{}, p
	}
	t, err := s.of(c.tenant)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	at, known, err := s.rows.CloseExecution(ctx, c.tenant, root)
	switch {
	case err != nil:
		return answer{}, err
	case !known:
		return answer{}, problem(codeExecutionNotFound, "No such root execution of this tenant.")
	}
	if err := s.counters.CloseExecution(ctx, t, root); err != nil && !errors.Is(err, budgetstore.ErrNoExecution) {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: closeAnswer{RootExecutionID: root, State: "closed", ClosedAt: clock(at)}}, nil
}
