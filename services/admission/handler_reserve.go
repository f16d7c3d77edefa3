package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/domain/pricing"
	"github.com/weir-project/weir/pkg/domain/usage"
	"github.com/weir-project/weir/pkg/identity"
	"github.com/weir-project/weir/pkg/usageevent"
)

// reserve decides whether a call may be made: POST /v1/reservations.
func (s *Service) reserve(ctx context.Context, c caller, req reserveRequest) (answer, error) {
	var p prepared
	if err := s.prepare(&c, &req, &p); err != nil {
		return answer{}, err
	}
	reply, err := s.decide(ctx, &p.request)
	if err != nil {
		return answer{}, err
	}
	return s.conclude(&c, &p, &reply)
}

// prepared is a reservation that the budget store can decide on. It is a kilobyte, as the caller is half of one with its
// contract, so the steps share both.
type prepared struct {
	now     time.Time
	asked   call
	request budgetstore.Request
}

// prepare is all that comes before the decision, and fills p: it asks no store.
func (s *Service) prepare(c *caller, req *reserveRequest, p *prepared) error {
	// decode
	if wrong := req.check(); wrong != nil {
		return wrong
	}
	p.now = s.deps.Now()
	if wrong := s.killed(c.tenant, req.Provider, req.Model); wrong != nil {
		s.decisions.refused(*c, req.ReservationID, call{Agent: req.AgentID}, admit.Refusal{Code: admit.Killed}, p.now)
		return wrong
	}

	req.Provider = usage.ProviderName(req.Provider) // a kill may be of the name as it was said

	// load
	execution, err := s.execution(c.tenant, string(req.ExecutionToken), p.now)
	if err != nil {
		return err
	}
	if err := s.quote(c, req, &execution, p); err != nil {
		if wrong, ok := errors.AsType[*Problem](err); ok && wrong.Code == admit.UnknownPrice { // for billing to see, who can cure it
			s.decisions.refused(*c, req.ReservationID, call{Root: execution.Root, Agent: req.AgentID}, admit.Refusal{Code: admit.UnknownPrice}, p.now)
		}
		return err
	}
	return s.request(c, req, &execution, p)
}

// conclude is all that comes after the decision, which the store has saved: it emits, and answers.
func (s *Service) conclude(c *caller, p *prepared, reply *budgetstore.Reply) (answer, error) {
	switch reply.Verdict {
	case budgetstore.Refused:
		s.decisions.refused(*c, p.request.ID, p.asked, reply.Refusal, p.now)
	case budgetstore.Admitted, budgetstore.Replayed:
		s.decisions.admitted(c, p.request.ID, &p.asked, &reply.Answer, reply.Verdict == budgetstore.Replayed)
	}
	return s.reserved(c, p, reply)
}

func (req reserveRequest) check() *Problem {
	provider := usage.ProviderName(req.Provider)
	if p := first(checkID("reservation_id", req.ReservationID), checkName("provider", provider), checkName("model", req.Model),
		unfit(usageevent.CheckID("provider", provider)),
		checkOptionalID("agent_id", req.AgentID), checkOptionalID("parent_agent_id", req.ParentAgentID),
		checkOptionalID("cost_center", req.CostCenter)); p != nil {
		return p
	}
	if req.Effect != "" && req.Effect != "read" && req.Effect != "write" {
		return invalid("effect", "effect is read or write.")
	}
	if req.LeaseSeconds < 0 || req.LeaseSeconds > int64((24*time.Hour)/time.Second) {
		return invalid("lease_seconds", "lease_seconds is not from 1 to 86400; 0, or none, is the default.")
	}
	return nil
}

// execution verifies the execution token, if there is one. Its tenant must be the caller's: a token is no credential
// for another tenant.
func (s *Service) execution(tenant, token string, now time.Time) (identity.Execution, error) {
	if token == "" {
		return identity.Execution{}, nil
	}
	e, err := s.catalogs.tokens.Verify(token, now)
	if err != nil {
		return identity.Execution{}, identityProblem(err)
	}
	if e.Tenant != tenant {
		return identity.Execution{}, problem(admit.ForbiddenTenant, "The execution token is of another tenant.")
	}
	return e, nil
}

// quote prices the estimate at the prices of now: at the model asked for and, where the plan names a cheaper one, at that.
// The token's lineage wins over what the body claims (I8); the body fills in what the token leaves open.
func (s *Service) quote(c *caller, req *reserveRequest, x *identity.Execution, p *prepared) error {
	v, _, err := s.catalogs.prices.Book().At(req.Provider, req.Model, p.now)
	if err != nil && !c.contract.HoldsUnpriced() {
		return priceProblem("estimate", err)
	}
	e, wrong := estimate(req.Estimate, v)
	if wrong != nil {
		return wrong
	}
	var costs money.USD
	if err == nil {
		costs, err = pricing.EstimateTotal(&v, e)
	}
	dearest := false
	if err != nil {
		if costs, dearest = s.dearest(c.contract, req.Provider, e, p.now, err); !dearest {
			return priceProblem("estimate", err)
		}
		v.ID = "" // it is no price of the book
	}
	p.asked = call{Provider: req.Provider, Model: req.Model, PriceVersion: v.ID, EstimateUSD: costs, Meters: meters(e), Effect: req.Effect,
		Root: x.Root, ParentAgent: req.ParentAgentID, Agent: req.AgentID, CostCenter: req.CostCenter, Depth: x.Depth,
		Plan: planOf(c.contract), Language: c.language, Dearest: dearest}
	if x.Root != "" {
		p.asked.ParentAgent, p.asked.Agent, p.asked.Branches = x.ParentAgent, x.Agent, branchText(x.Branches)
		if x.CostCenter != "" {
			p.asked.CostCenter = x.CostCenter
		}
	}
	if p.request.Estimate, err = reservedFor(c.contract, costs, e); err != nil {
		return invalid("estimate", err.Error())
	}
	p.asked.Saving, p.request.Saving = s.saving(c, req, &v, e.MaxOutputTokens, costs, p.now)
	return nil
}

// priceProblem is the answer to an amount that cannot be priced; field is what the caller sent of it.
func priceProblem(field string, err error) *Problem {
	if unpriced(err) {
		return problem(admit.UnknownPrice, err.Error())
	}
	return invalid(field, err.Error())
}

// request completes what the budget store decides on, and the call that was asked, which from then on is what the hold keeps.
func (s *Service) request(c *caller, req *reserveRequest, x *identity.Execution, p *prepared) error {
	loc, err := s.zones.Of(c.contract)
	if err != nil {
		return problem(codeInternal, "The tenant's time zone is not known here.")
	}
	r := &p.request
	if r.Tenant, err = s.of(c.tenant); err != nil {
		return storeProblem(err)
	}
	r.Scopes = p.asked.countIn(*c)
	var fits bool
	if r.Context, fits = p.asked.keep(&r.Saving); !fits {
		return invalid("estimate", fmt.Sprintf("Names and meters together exceed %d bytes.", budgetstore.MaxContext))
	}
	r.ID, r.Fingerprint, r.Effect = req.ReservationID, content(req, &p.asked).Fingerprint(), effectOf(req.Effect)
	r.Limits, r.Calendar, r.Lease = limitsOf(c.contract), s.calendar(p.now, loc), s.lease(req.LeaseSeconds)
	if x.Root != "" {
		r.Execution = admit.Execution{Root: x.Root, Depth: int64(x.Depth), ExecutionLimits: executionLimits(c.contract, x.RootMaxCost(), x.MaxDepth),
			Branches: x.Branches}
	}
	return nil
}

// lease is what was asked for within the maximum, which is also the default.
func (s *Service) lease(seconds int64) time.Duration {
	d := time.Duration(seconds) * time.Second
	if d <= 0 || d > s.cfg.MaxLease {
		return s.cfg.MaxLease
	}
	return d
}

func (s *Service) decide(ctx context.Context, request *budgetstore.Request) (budgetstore.Reply, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var reply budgetstore.Reply
	err := s.onTenant(ctx, request.Tenant, func() (err error) {
		reply, err = s.counters.Reserve(ctx, *request)
		return err
	})
	return reply, err
}

// reserved is the answer to a decision.
func (s *Service) reserved(c *caller, p *prepared, reply *budgetstore.Reply) (answer, error) {
	status, request := http.StatusCreated, &p.request
	h := hold{Tenant: c.tenant, Epoch: request.Tenant.Epoch, ID: request.ID, Fingerprint: request.Fingerprint, Answer: reply.Answer, rawCall: request.Context}
	switch reply.Verdict {
	case budgetstore.Refused:
		loc, err := s.zones.Of(c.contract)
		if err != nil {
			return answer{}, problem(codeInternal, "The tenant's time zone is not known here.")
		}
		return answer{rates: ratesOfRefusal(c.contract.Limits, reply.Refusal)}, refused(reply.Refusal, *c, loc)
	case budgetstore.Conflict:
		return answer{}, problem(admit.ReservationConflict, "This reservation id is open with other content.")
	case budgetstore.Ended:
		return answer{}, problem(admit.ReservationConflict, "This reservation id was used by a reservation that has ended.")
	case budgetstore.Replayed:
		var err error
		status = http.StatusOK
		if h.call, h.rawCall, err = grantedCall(reply.Context, h.Answer); err != nil {
			return answer{}, problem(codeInternal, err.Error())
		}
	case budgetstore.Admitted: // what was kept is what was asked just now: it need not be read back
		if h.call = p.asked.granted(h.Answer.Saving); p.asked.Saving != nil {
			h.rawCall = h.call.encode()
		}
	}
	body, err := h.answer(s.cfg.Secret, s.contractOf(c, h.call.Plan))
	if err != nil {
		return answer{}, problem(codeInternal, err.Error())
	}
	s.remember(h)
	return answer{status: status, body: body, rates: ratesOf(c.contract.Limits, reply.Answer.Remaining)}, nil
}
