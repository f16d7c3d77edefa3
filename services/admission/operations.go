package admission

import (
	"net/http"
	"slices"

	"github.com/weir-project/weir/pkg/domain/admit"
)

// operation is what the description of the API says about one call beside its path.
type operation struct {
	id, summary string
	// who may call: bearer, slack, telegram or nobody in particular.
	who string
	// query are the parameters of the query, all optional text.
	query []string
	// request is the struct that is decoded, nil for none; types are its media types, JSON if empty.
	request any
	types   []string
	// optional: the body may be left out.
	optional bool
	// answers are the statuses of success, each with the struct that is encoded; nil for none.
	answers []success
	// rates: the RateLimit fields are among the headers.
	rates bool
	// problems are the codes of this call beside those of every call.
	problems []admit.Code
}

type success struct {
	status int
	body   any
}

// Who may call.
const (
	byBearer   = "bearer"
	bySlack    = "slack"
	byTelegram = "telegram"
	byAnyone   = "anyone"
)

func ok(body any) []success { return []success{{http.StatusOK, body}} }

// problemsOf are the codes that a call may be answered with.
func (o operation) problemsOf() []admit.Code {
	all := []admit.Code{codeInternal}
	if o.who != byAnyone {
		all = append(all, admit.Unauthenticated, admit.ForbiddenTenant, admit.InvalidArgument, admit.StoreUnavailable, admit.Killed)
	}
	if o.request != nil || o.types != nil {
		all = append(all, codeTooLarge, codeEncoded)
	}
	return append(all, o.problems...)
}

// The codes that several calls share.
func executionProblems() []admit.Code {
	return []admit.Code{admit.RateLimited, admit.ExecutionDepthExceeded, admit.ExecutionRevoked, admit.StoreRecovering}
}

func reservationProblems(more ...admit.Code) []admit.Code {
	return append([]admit.Code{admit.ReservationNotFound, admit.StoreRecovering}, more...)
}

// operations describe the routes, by pattern; a test holds it against the table of routes.
func operations() map[string]operation {
	events := operation{summary: "Send usage events; answered once Kafka has them all. One dated more than 5 minutes ahead counts as of then", who: byBearer,
		types:   []string{"application/cloudevents+json", "application/cloudevents-batch+json", "application/json"},
		answers: []success{{http.StatusNoContent, nil}}, problems: []admit.Code{admit.RateLimited}}
	eventsToo := events
	events.id, eventsToo.id = "sendEvents", "sendEventsOpenMeter"
	webhook := operation{summary: "Start the execution that a raw Slack request asks for", who: bySlack, id: "startExecutionFromSlack",
		query: []string{"agent_id", "root_execution_id", "cost_center", "max_cost_usd", "max_depth"}, types: []string{"application/json", "application/x-www-form-urlencoded"},
		answers: []success{{http.StatusCreated, executionAnswer{}}}, problems: append(executionProblems(), codeNotFound)}
	telegram := webhook
	telegram.id, telegram.who, telegram.summary, telegram.types = "startExecutionFromTelegram", byTelegram, "Start the execution that a raw Telegram update asks for", []string{"application/json"}
	return map[string]operation{
		"POST /v1/executions": {id: "startExecution", summary: "Start, resume or continue an execution; gives its token", who: byBearer, request: executionRequest{},
			answers: []success{{http.StatusCreated, executionAnswer{}}}, problems: executionProblems()},
		"POST /v1/executions/{root}/close": {id: "closeExecution", summary: "Mark a root execution as done: it counts as open no longer, its tokens live on, and a further reservation opens it again", who: byBearer, request: closeRequest{}, optional: true,
			answers: ok(closeAnswer{}), problems: []admit.Code{codeExecutionNotFound, admit.StoreRecovering}},
		"POST /v1/reservations": {id: "reserve", summary: "Decide whether a call may be made", who: byBearer, rates: true, request: reserveRequest{},
			answers: []success{{http.StatusCreated, reserveAnswer{}}, {http.StatusOK, reserveAnswer{}}},
			problems: []admit.Code{admit.RateLimited, admit.UpstreamThrottled, admit.TenantQuotaExceeded, admit.ToolDeferred, admit.ReadOnlyMode, admit.EstimateExceedsLimit,
				admit.ExecutionBudgetExceeded, admit.ExecutionDepthExceeded, admit.ExecutionRevoked, admit.ProviderAccountClosed, admit.StoreRecovering, admit.UnknownPrice,
				admit.ReservationConflict}},
		"POST /v1/reservations:batch": {id: "reserveBatch", summary: "Decide on up to 256 reservations in one round trip, each with its own answer", who: byBearer,
			rates: true, request: batchRequest{}, answers: ok(batchAnswer{})},
		"GET /v1/reservations/{id}": {id: "getReservation", summary: "How a reservation stands", who: byBearer, answers: ok(stateAnswer{}), problems: reservationProblems()},
		"POST /v1/reservations/{id}/settle": {id: "settle", summary: "Take what a call has used; once it is answered, it is committed", who: byBearer,
			request: settleRequest{}, answers: ok(settleAnswer{}), problems: reservationProblems(admit.ReservationConflict)},
		"POST /v1/reservations/{id}/release": {id: "release", summary: "Give a reservation back whose call was never made", who: byBearer, request: releaseRequest{}, optional: true,
			answers: ok(stateAnswer{}), problems: reservationProblems(admit.ReservationConflict)},
		"POST /v1/reservations/{id}/extend": {id: "extend", summary: "The heartbeat of a long call; its answer may be to stop", who: byBearer, request: extendRequest{}, optional: true,
			answers: ok(extendAnswer{}), problems: reservationProblems(admit.ReservationConflict, admit.UnknownPrice)},
		"GET /v1/budget": {id: "getBudget", summary: "The caller's own account", who: byBearer, query: []string{"agent_id", "cost_center"}, answers: ok(budgetAnswer{}),
			problems: []admit.Code{admit.StoreRecovering}},
		"POST /v1/events": events, "POST /api/v1/events": eventsToo,
		"POST /v1/executions:from-slack": webhook, "POST /v1/executions:from-telegram": telegram,
		"GET /openapi.json": {id: "getDescription", summary: "This document", who: byAnyone, answers: ok(anyObject{})},
	}
}

// anyObject is an answer whose members are described elsewhere.
type anyObject map[string]any

// byStatus groups codes by their HTTP status, without repeating any.
func byStatus(codes []admit.Code) map[int][]admit.Code {
	out := map[int][]admit.Code{}
	for _, c := range codes {
		if n := status(c); !slices.Contains(out[n], c) {
			out[n] = append(out[n], c)
		}
	}
	return out
}
