package admission

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weir-project/weir/pkg/budgetstore"
	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/money"
	"github.com/weir-project/weir/pkg/identity"
)

// byBody lets a handler identify by the raw body, which is read once.
func byBody(context.Context, *http.Request) (caller, error) { return caller{}, nil }

// fromSlack gives an execution token for a raw Slack request: POST /v1/executions:from-slack. Its signature is the
// credential; the same request is taken once, by all replicas together.
func (s *Service) fromSlack(ctx context.Context, _ caller, w http.ResponseWriter, r *http.Request) (answer, error) {
	if s.cfg.Slack == nil {
		return answer{}, problem(codeNotFound, "Slack is not configured here (-slack-signing-secret-file).")
	}
	if p := s.unready(); p != nil {
		return answer{}, p
	}
	if err := s.cfg.Slack.VerifyHeader(r.Header, s.deps.Now()); err != nil { // the signature needs the body
		return answer{}, identityProblem(err)
	}
	body, p := readBody(w, r, maxBody, nil)
	if p != nil {
		return answer{}, p
	}
	hook, err := s.cfg.Slack.Verify(r.Header, body, s.deps.Now())
	if err != nil {
		return answer{}, identityProblem(err)
	}
	return s.fromWebhook(ctx, hook, r)
}

// fromTelegram gives an execution token for a raw Telegram update: POST /v1/executions:from-telegram.
func (s *Service) fromTelegram(ctx context.Context, _ caller, w http.ResponseWriter, r *http.Request) (answer, error) {
	if s.cfg.Telegram == nil {
		return answer{}, problem(codeNotFound, "Telegram is not configured here (-telegram-secret-file).")
	}
	if p := s.unready(); p != nil {
		return answer{}, p
	}
	bot, err := s.cfg.Telegram.VerifyHeader(r.Header)
	if err != nil {
		return answer{}, identityProblem(err)
	}
	body, p := readBody(w, r, maxBody, nil)
	if p != nil {
		return answer{}, p
	}
	hook, err := bot.Account(body)
	if err != nil {
		return answer{}, identityProblem(err)
	}
	return s.fromWebhook(ctx, hook, r)
}

// fromWebhook starts the execution that a verified webhook asks for. The tenant is the one that lists the webhook's
// identity; nothing in the body can name another (I8).
func (s *Service) fromWebhook(ctx context.Context, hook identity.Webhook, r *http.Request) (answer, error) {
	if p := unclear(repeatedHeader(r.Header.Values("Authorization"), r.Header.Values(tenantHeader))); p != nil {
		return answer{}, p
	}
	tenant, ok := s.tenantOfIdentity(hook.Identity)
	if !ok {
		return answer{}, problem(admit.ForbiddenTenant, "No tenant lists "+hook.Identity+" among its identities, or more than one does.")
	}
	c, err := s.callerOf(identity.Principal{Method: hook.Method, KeyID: hook.User, Tenants: []string{tenant}}, r.Header.Get(tenantHeader), false, s.deps.Now())
	if err != nil {
		return answer{}, err
	}
	req, p := webhookRequest(hook, r.URL)
	if p != nil {
		return answer{}, p
	}
	if hook.Use == "" {
		return s.begin(ctx, c, req)
	}
	// What the lost Redis remembered of taken requests is lost too: one that was signed before the end of the recovery may
	// have been taken already.
	if recovered := s.epochs.Last().RecoveredAt; !recovered.IsZero() && hook.Sent.Before(recovered) {
		return answer{}, problem(admit.Unauthenticated, "The request was signed before the budget store was recovered and may have been sent before; send a new one.")
	}
	return s.once(ctx, hook.Use, func() (answer, error) { return s.begin(ctx, c, req) })
}

// once gives at most one answer for a one-time value, over all replicas. An attempt holds the value, and spends it before
// its answer leaves. Only where Redis goes away just then may a request count as sent that was answered 503.
func (s *Service) once(ctx context.Context, value string, do func() (answer, error)) (answer, error) {
	owner, err := newRoot(s.deps.Random)
	if err != nil {
		return answer{}, problem(codeInternal, err.Error())
	}
	hold, cancel := s.bounded(ctx)
	defer cancel()
	use, err := s.counters.HoldUse(hold, value, owner, useDeadlines*s.cfg.Deadline)
	switch {
	case err != nil:
		return answer{}, err
	case use == budgetstore.UseSpent:
		return answer{}, problem(admit.Unauthenticated, "The request was sent before.")
	case use == budgetstore.UseHeld:
		return answer{}, problem(admit.StoreUnavailable, "The same request is being answered; if that fails, send it again.")
	}
	a, err := do()
	if err != nil {
		return answer{}, err
	}
	spend, done := s.bounded(ctx)
	defer done()
	spent, err := s.counters.SpendUse(spend, value, owner, identity.SlackMemory)
	if err == nil && !spent {
		err = problem(admit.StoreUnavailable, "It took too long; send the request again.")
	}
	return a, err
}

// useDeadlines is how many deadlines an attempt may take: all that it waits for, and short enough to be waited for itself.
const useDeadlines = 5

// webhookRequest is the body of POST /v1/executions for a webhook. The bot's back end may add what the platform does not
// say as query parameters; the user and the event are the defaults, so that a second delivery of one event resumes its
// execution instead of starting another.
func webhookRequest(hook identity.Webhook, u *url.URL) (executionRequest, *Problem) {
	req := executionRequest{AgentID: hook.User, RootExecutionID: hook.Event}
	named, p := parameters(u, "agent_id", "root_execution_id", "cost_center", "max_cost_usd", "max_depth")
	if p != nil {
		return req, p
	}
	for name, v := range named {
		switch name {
		case "agent_id":
			req.AgentID = v
		case "root_execution_id":
			req.RootExecutionID = v
		case "cost_center":
			req.CostCenter = v
		case "max_cost_usd":
			usd, err := money.ParseUSD(v)
			if err != nil {
				return req, invalid(name, notLimit)
			}
			req.MaxCostUSD = &usd
		case "max_depth":
			n, err := strconv.Atoi(v)
			if err != nil || v[0] == '+' { // which JSON has not
				return req, invalid(name, "max_depth is not a whole number.")
			}
			req.MaxDepth = &n
		}
	}
	return req, nil
}
